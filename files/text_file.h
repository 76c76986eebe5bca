// Text that a user names, as the string that a tokenizer reads.
#ifndef BALLAST_FILES_TEXT_FILE_H_
#define BALLAST_FILES_TEXT_FILE_H_

#include <filesystem>
#include <string>
#include <vector>

namespace ballast::files {

/// `text` as Unix writes it: without a byte order mark, and lines that end as Windows ends them ("\r\n") end in "\n".
std::string with_unix_line_ends(std::string text);

/// The whole file, with_unix_line_ends(). Throws Error naming it when it cannot be read or is empty.
std::string read_text_file(const std::filesystem::path& path);

/// Its lines, without what ends them; an empty one counts, too. Throws Error where it is not UTF-8, too.
std::vector<std::string> read_text_lines(const std::filesystem::path& path);

}  // namespace ballast::files

#endif  // BALLAST_FILES_TEXT_FILE_H_
