#include "jobs/number_in_file.h"

#include <fstream>
#include <sstream>

namespace ballast::jobs {

std::optional<std::uint64_t> number_in_file(const std::filesystem::path& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    if (!key.empty() && (!(words >> name) || name != key)) continue;
    std::uint64_t number = 0;
    if (words >> number) return number;
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace ballast::jobs
