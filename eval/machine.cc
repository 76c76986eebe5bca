#include "ballast/machine.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ballast/processor.h"
#include "ballast/threads.h"
#include "eval/result_fields.h"
#include "jobs/control_group.h"
#include "jobs/cpu_name.h"
#include "jobs/memory.h"
#include "kernels/float_gemm.h"
#include "kernels/machine.h"

namespace ballast {
namespace {

// Measurements of memory's speed, which varies where it is shared: the middle one counts.
constexpr std::size_t kReadings = 7;

double middle_read_gb_s() {
  std::array<double, kReadings> readings{};
  for (double& reading : readings) reading = kernels::measure_read_gb_s();
  std::ranges::nth_element(readings, readings.begin() + kReadings / 2);
  return readings[kReadings / 2];
}

/// Returns the word in brackets of "always [madvise] never".
std::string huge_page_setting() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  std::getline(file, line);
  const std::size_t begin = line.find('[');
  const std::size_t end = line.find(']');
  return begin < end && end != std::string::npos ? line.substr(begin + 1, end - begin - 1) : "";
}

std::uint64_t all_memory() {
  const auto pages = ::sysconf(_SC_PHYS_PAGES);
  const auto page = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page) : 0;
}

}  // namespace

Machine examine_machine() {
  Machine machine;
  machine.cpu = jobs::cpu_name();
  machine.simd_target = simd_target();
  machine.cores = available_cores();
  machine.physical_cores = physical_cores();
  machine.core_quota = jobs::ControlGroup().processors();
  machine.memory_nodes = kernels::memory_nodes();
  machine.memory_bytes = all_memory();
  machine.available_memory_bytes = std::min(jobs::available_memory(), machine.memory_bytes);  // without /proc: all
  machine.huge_pages = huge_page_setting();
  machine.read_gb_s = middle_read_gb_s();
  machine.int8_gops = kernels::measure_int8_gops();
  machine.f32_gflops = kernels::measure_f32_gflops();
  if (kernels::multiplies_bf16()) machine.bf16_gflops = kernels::measure_bf16_gflops();
  return machine;
}

std::string machine_json(const Machine& machine) {
  nlohmann::json fields;
  const eval::WriteField write{fields};
  write("cpu", machine.cpu);
  write("simd_target", machine.simd_target);
  write("cores", machine.cores);
  write("physical_cores", machine.physical_cores);
  write("core_quota", machine.core_quota);
  write("memory_nodes", machine.memory_nodes);
  write("memory_bytes", machine.memory_bytes);
  write("available_memory_bytes", machine.available_memory_bytes);
  write("huge_pages", machine.huge_pages);
  write("read_gb_s", machine.read_gb_s);
  write("int8_gops", machine.int8_gops);
  write("f32_gflops", machine.f32_gflops);
  write("bf16_gflops", machine.bf16_gflops);
  fields["advice"] = machine_advice(machine);
  return fields.dump();
}

std::vector<std::string> machine_advice(const Machine& machine) {
  std::vector<std::string> advice;
  if (machine.core_quota && *machine.core_quota < machine.physical_cores) {
    advice.push_back("a control group allows " + std::to_string(*machine.core_quota) + " of " +
                     std::to_string(machine.physical_cores) + " cores: raise the container's limit of CPUs");
  }
  if (machine.memory_nodes > 1) {
    advice.push_back(
        "there are " + std::to_string(machine.memory_nodes) +
        " memory nodes: a process for each, bound to it (numactl --cpunodebind N --membind N), reads its own "
        "memory only");
  }
  if (machine.huge_pages == "never") {
    advice.emplace_back(
        "huge pages are off, so reading weights waits for page tables: write madvise to "
        "/sys/kernel/mm/transparent_hugepage/enabled");
  }
  constexpr std::array kOneInstruction = {"VNNI", "AMX", "DOTPROD", "I8MM"};
  const auto multiplies_in_one = [&](const char* suffix) { return machine.simd_target.contains(suffix); };
  if (std::ranges::none_of(kOneInstruction, multiplies_in_one)) {
    advice.emplace_back(
        "the processor multiplies INT8 in several instructions: prompts take two to three times as long as "
        "with VNNI or i8mm; generation, which memory limits, does not");
  }
  return advice;
}

}  // namespace ballast
