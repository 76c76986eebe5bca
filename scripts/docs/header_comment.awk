# Makes a header's first comment the description of the file, for doxygen.
BEGIN { print "/// \\file"; top = 1 }
top && /^\/\// { sub(/^\/\//, "///") }
!/^\/\// { top = 0 }
{ print }
