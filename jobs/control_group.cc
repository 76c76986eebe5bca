#include "jobs/control_group.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <utility>

#include "jobs/number_in_file.h"

namespace ballast::jobs {

namespace {

namespace fs = std::filesystem;

fs::path own_group() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::/")) return line.substr(4);  // the entry of version 2
  }
  return {};
}

}  // namespace

ControlGroup::ControlGroup() : ControlGroup("/sys/fs/cgroup", own_group()) {}

ControlGroup::ControlGroup(fs::path root, fs::path group) : root_(std::move(root)), group_(std::move(group)) {}

template <typename Visit>
void ControlGroup::walk_up(const Visit& visit) const {
  for (fs::path group = group_;; group = group.parent_path()) {
    visit(root_ / group);
    if (group.empty()) return;
  }
}

std::uint64_t ControlGroup::available_memory() const {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  walk_up([&](const fs::path& folder) {
    const std::optional<std::uint64_t> limit = number_in_file(folder / "memory.max");
    if (!limit) return;
    // The system can drop pages of files, except those that exist only in memory (tmpfs).
    const std::uint64_t used = number_in_file(folder / "memory.current").value_or(0);
    const std::uint64_t files = number_in_file(folder / "memory.stat", "file").value_or(0);
    const std::uint64_t shared = number_in_file(folder / "memory.stat", "shmem").value_or(0);
    const std::uint64_t held = used - std::min(used, files - std::min(files, shared));
    least = std::min(least, *limit - std::min(*limit, held));
  });
  return least;
}

std::optional<std::size_t> ControlGroup::processors() const {
  std::optional<std::size_t> least;
  walk_up([&](const fs::path& folder) {
    std::ifstream file(folder / "cpu.max");
    std::string line;
    std::getline(file, line);
    if (const auto processors = processors_of_quota(line)) least = std::min(*processors, least.value_or(*processors));
  });
  return least;
}

std::optional<std::size_t> processors_of_quota(std::string_view cpu_max) {
  std::istringstream text{std::string(cpu_max)};
  std::size_t quota = 0;
  std::size_t period = 0;
  if (!(text >> quota >> period) || period == 0) return {};
  return std::max<std::size_t>(1, quota / period);
}

}  // namespace ballast::jobs
