#include "files/text_file.h"

#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "ballast/error.h"

namespace ballast::files {

std::string read_text_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw FileError(path.string(), "is a directory, expected a text file");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FileError(path.string(), "cannot be opened: " + std::generic_category().message(errno));
  // Read as a stream does, which catches its buffer's failures; a pipe has no size to ask for.
  std::string text;
  std::array<char, 65536> part;
  while (file.read(part.data(), part.size()) || file.gcount() > 0) {
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) throw FileError(path.string(), "cannot be read");
  if (text.empty()) throw Error(path.string(), "is empty");
  return text;
}

}  // namespace ballast::files
