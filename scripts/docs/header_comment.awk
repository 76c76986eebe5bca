# Of a header: what its first comment says is said of the file, for doxygen.
BEGIN { print "/// \\file"; top = 1 }
top && /^\/\// { sub(/^\/\//, "///") }
!/^\/\// { top = 0 }
{ print }
