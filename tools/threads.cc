#include "tools/threads.h"

#include <omp.h>
#include <sched.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

namespace ballast::tools {
namespace {

// The CPUs that share a core with `cpu`, as the kernel lists them ("0,64"); its own number where that is not known.
std::string core_of(int cpu) {
  const std::string number = std::to_string(cpu);
  std::ifstream file("/sys/devices/system/cpu/cpu" + number + "/topology/thread_siblings_list");
  std::string siblings;
  return std::getline(file, siblings) && !siblings.empty() ? siblings : number;
}

}  // namespace

std::size_t available_cores() {
  cpu_set_t cpus;
  // It fails on machines with more CPUs than the set holds; OpenMP asks with a larger one.
  if (::sched_getaffinity(0, sizeof cpus, &cpus) != 0) return static_cast<std::size_t>(omp_get_num_procs());
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &cpus)) cores.insert(core_of(cpu));
  }
  return cores.size();
}

void use_threads(std::optional<std::size_t> threads) {
  const char* environment = std::getenv("OMP_NUM_THREADS");
  if (!threads && environment != nullptr && *environment != '\0') return;
  omp_set_num_threads(static_cast<int>(threads.value_or(available_cores())));
}

}  // namespace ballast::tools
