#include "ballast/threads.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ballast/error.h"
#include "ballast/ranks.h"
#include "jobs/control_group.h"

namespace ballast {

namespace {

// Returns the list of CPUs that share a core with `cpu`, as the kernel writes it ("0,64"); its own number if unknown.
std::string core_of(int cpu) {
  const std::string number = std::to_string(cpu);
  std::ifstream file("/sys/devices/system/cpu/cpu" + number + "/topology/thread_siblings_list");
  std::string siblings;
  return std::getline(file, siblings) && !siblings.empty() ? siblings : number;
}

// Returns whether a launcher, a CPU set or taskset gave the process fewer CPUs than the machine has.
bool has_cpus_of_its_own() {
  cpu_set_t allowed;
  return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) < ::sysconf(_SC_NPROCESSORS_ONLN);
}

// Returns the number of ranks on this process's CPUs: one if the launcher gave each rank its own.
std::size_t ranks_on_these_cpus() {
  return has_cpus_of_its_own() ? 1 : launched_ranks_here();
}

// Returns the first CPU of every core that this thread may run on.
std::vector<int> find_core_cpus() {
  cpu_set_t allowed;
  std::vector<int> cpus;
  // The call fails on machines with more CPUs than the set holds.
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cpus;
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed) && cores.insert(core_of(cpu)).second) cpus.push_back(cpu);
  }
  return cpus;
}

// Returns the same for the process, as read before any thread is pinned.
const std::vector<int>& core_cpus() {
  static const std::vector<int> cpus = find_core_cpus();
  return cpus;
}

// Returns whether pinning is safe: no other program and no other rank is expected on the CPUs, and OpenMP was not
// configured to place threads.
bool may_pin(std::size_t cores) {
  const auto set = [](const char* name) { return std::getenv(name) != nullptr; };
  const bool placed = set("OMP_PROC_BIND") || set("OMP_PLACES") || set("GOMP_CPU_AFFINITY");
  return !placed && has_cpus_of_its_own() && launched_ranks_here() == 1 &&
         static_cast<std::size_t>(omp_get_max_threads()) == cores;
}

// The CPUs of this thread before it was pinned; empty: it is not pinned.
thread_local std::optional<cpu_set_t> cpus_before_pinning;

// Pins thread i of the pool to core i, modulo the number of cores. If the system refuses, the thread is not pinned.
void place_threads() {
  const std::vector<int>& cpus = core_cpus();
#pragma omp parallel
  {
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(cpus[static_cast<std::size_t>(omp_get_thread_num()) % cpus.size()], &own);
    ::sched_setaffinity(0, sizeof own, &own);
  }
}

// A fork ends the pool (kernels/parallel.cc). The parent pins its new pool as before. The child would compete for the
// same cores, so its threads are not pinned.
void keep_pins_over_forks() {
  static const int registered = pthread_atfork(
      nullptr,
      [] {
        if (cpus_before_pinning) place_threads();
      },
      [] {
        if (!cpus_before_pinning) return;
        ::sched_setaffinity(0, sizeof *cpus_before_pinning, &*cpus_before_pinning);
        cpus_before_pinning.reset();
      });
  if (registered != 0) throw FileError("threads", "the system has no memory to pin them");
}

void pin_threads() {
  keep_pins_over_forks();
  cpu_set_t allowed;
  if (!cpus_before_pinning && ::sched_getaffinity(0, sizeof allowed, &allowed) == 0) cpus_before_pinning = allowed;
  place_threads();
}

}  // namespace

std::size_t physical_cores() {
  const std::size_t counted = core_cpus().size();
  return counted > 0 ? counted : static_cast<std::size_t>(omp_get_num_procs());
}

std::size_t available_cores() {
  const std::size_t cores = physical_cores();
  return std::max<std::size_t>(
      1, std::min(cores, jobs::ControlGroup().processors().value_or(cores)) / ranks_on_these_cpus());
}

void use_threads(const ThreadOptions& options) {
  const char* environment = std::getenv("OMP_NUM_THREADS");
  if (options.count || environment == nullptr || *environment == '\0') {
    omp_set_num_threads(static_cast<int>(options.count.value_or(available_cores())));
  }
  const std::vector<int>& cpus = core_cpus();
  if (options.pin.value_or(may_pin(cpus.size())) && !cpus.empty()) pin_threads();
}

}  // namespace ballast
