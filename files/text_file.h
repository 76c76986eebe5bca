// Reads text files for tokenizers.
#ifndef BALLAST_FILES_TEXT_FILE_H_
#define BALLAST_FILES_TEXT_FILE_H_

#include <filesystem>
#include <string>
#include <vector>

namespace ballast::files {

/// Returns `text` without a byte order mark and with line ends "\n" instead of "\r\n".
std::string with_unix_line_ends(std::string text);

/// Returns the whole file after with_unix_line_ends(). Throws Error naming it if it cannot be read or is empty.
std::string read_text_file(const std::filesystem::path& path);

/// Returns its lines without line ends; empty lines are included. Also throws Error if it is not UTF-8.
std::vector<std::string> read_text_lines(const std::filesystem::path& path);

}  // namespace ballast::files

#endif  // BALLAST_FILES_TEXT_FILE_H_
