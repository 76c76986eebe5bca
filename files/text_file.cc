#include "files/text_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "ballast/error.h"
#include "files/utf8.h"

namespace ballast::files {

std::string with_unix_line_ends(std::string text) {
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  if (!text.contains("\r\n")) return text;
  std::size_t size = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r' || i + 1 == text.size() || text[i + 1] != '\n') text[size++] = text[i];
  }
  text.resize(size);
  return text;
}

std::string read_text_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw FileError(path.string(), "is a directory, expected a text file");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FileError(path.string(), "cannot be opened: " + std::generic_category().message(errno));
  // Reads as a stream, whose buffer's failures are caught; a pipe has no size.
  std::string text;
  std::array<char, 65536> part;
  while (file.read(part.data(), part.size()) || file.gcount() > 0) {
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) throw FileError(path.string(), "cannot be read");
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    throw Error(path.string(), "is UTF-16, must be UTF-8: save it as that, or use iconv -f UTF-16 -t UTF-8");
  }
  text = with_unix_line_ends(std::move(text));
  if (text.empty()) throw Error(path.string(), "is empty");
  return text;
}

std::vector<std::string> read_text_lines(const std::filesystem::path& path) {
  const std::string text = read_text_file(path);
  if (!is_utf8(text)) throw Error(path.string(), "is not UTF-8");
  std::vector<std::string> lines;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    lines.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return lines;
}

}  // namespace ballast::files
