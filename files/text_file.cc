#include "files/text_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "ballast/error.h"

namespace ballast::files {

std::string read_text_file(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) throw FileError(path.string(), "is a directory, expected a text file");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FileError(path.string(), std::strerror(errno));
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (file.bad()) throw FileError(path.string(), "cannot be read");
  if (text.empty()) throw Error(path.string(), "is empty");
  return text;
}

}  // namespace ballast::files
