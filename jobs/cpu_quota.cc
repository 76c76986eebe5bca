#include "jobs/cpu_quota.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace ballast::jobs {

std::optional<std::size_t> processors_of_quota(std::string_view cpu_max) {
  std::istringstream text{std::string(cpu_max)};
  std::size_t quota = 0;
  std::size_t period = 0;
  if (!(text >> quota >> period) || period == 0) return {};
  return std::max<std::size_t>(1, quota / period);
}

std::optional<std::size_t> cpu_quota() {
  std::ifstream groups("/proc/self/cgroup");
  std::filesystem::path group;
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::/")) group = line.substr(4);  // the entry of version 2
  }
  std::optional<std::size_t> least;
  for (;; group = group.parent_path()) {
    std::ifstream file(std::filesystem::path("/sys/fs/cgroup") / group / "cpu.max");
    std::string line;
    if (std::getline(file, line)) {
      const std::optional<std::size_t> processors = processors_of_quota(line);
      if (processors) least = std::min(*processors, least.value_or(*processors));
    }
    if (group.empty()) return least;
  }
}

}  // namespace ballast::jobs
