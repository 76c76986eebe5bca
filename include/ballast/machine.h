// What this machine has, and what that means for the speed of models.
#ifndef BALLAST_MACHINE_H_
#define BALLAST_MACHINE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ballast {

struct Machine {
  std::string cpu;
  std::string simd_target;                   ///< the best instruction set (simd_targets())
  std::size_t cores = 0;                     ///< available_cores(): the threads that jobs have by default
  std::size_t physical_cores = 0;            ///< those of the CPUs that the process may use
  std::optional<std::size_t> core_quota;     ///< that of the control groups
  std::size_t memory_nodes = 1;              ///< NUMA nodes
  std::uint64_t memory_bytes = 0;            ///< of the machine; 0: unknown
  std::uint64_t available_memory_bytes = 0;  ///< what the process may still use
  std::string huge_pages;  ///< the system's setting for processes: "always", "madvise", "never", or ""
  double read_gb_s = 0;    ///< all threads together, from memory
  double int8_gops = 0;    ///< multiplications and additions, all threads together
  double f32_gflops = 0;
  std::optional<double> bf16_gflops;  ///< if the processor multiplies BF16
};

/// Examines the machine and measures its limits for about a second, with the threads of use_threads().
Machine examine_machine();

std::string machine_json(const Machine& machine);

/// Returns what could be better, a sentence each.
std::vector<std::string> machine_advice(const Machine& machine);

}  // namespace ballast

#endif  // BALLAST_MACHINE_H_
