#include "jobs/memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "ballast/ranks.h"
#include "jobs/control_group.h"
#include "jobs/number_in_file.h"

namespace ballast::jobs {

std::uint64_t available_memory() {
  const std::uint64_t free_kilobytes = number_in_file("/proc/meminfo", "MemAvailable:").value_or(0);
  const std::uint64_t machine = free_kilobytes == 0 ? std::numeric_limits<std::uint64_t>::max() : free_kilobytes * 1024;
  return std::min(machine, ControlGroup().available_memory()) / launched_ranks_here();
}

std::uint64_t resident_memory() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t mapped = 0;
  std::uint64_t resident = 0;
  file >> mapped >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace ballast::jobs
