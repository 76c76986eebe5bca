#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ballast/machine.h"
#include "ballast/processor.h"
#include "ballast/text.h"
#include "ballast/version.h"
#include "tools/commands/commands.h"
#include "tools/commands/job.h"
#include "tools/terminal/console.h"
#include "tools/terminal/table.h"
#include "tools/terminal/units.h"

namespace ballast::tools {
namespace {

struct DoctorFlags {
  bool json = false;
  JobFlags job;
};

std::string core_text(const Machine& machine) {
  std::string text = std::to_string(machine.cores);
  if (machine.cores != machine.physical_cores) text += " of " + std::to_string(machine.physical_cores);
  return text;
}

std::string memory_text(const Machine& machine) {
  const std::string available = text::format_bytes(machine.available_memory_bytes) + " available";
  return machine.memory_bytes == 0 ? available : text::format_bytes(machine.memory_bytes) + ", " + available;
}

std::string machine_table(const Machine& machine) {
  const Features built = features();
  Table table({{}, {}});
  table.add_row({"processor", report::printable(machine.cpu)});
  table.add_row({"instructions", machine.simd_target});
  table.add_row({"cores", core_text(machine)});
  table.add_row({"memory", memory_text(machine)});
  table.add_row({"memory nodes", std::to_string(machine.memory_nodes)});
  table.add_row({"huge pages", machine.huge_pages.empty() ? "unknown" : machine.huge_pages});
  table.add_row({"memory reads", format_fixed(machine.read_gb_s, 1) + " GB/s"});
  table.add_row({"INT8 peak", format_fixed(machine.int8_gops, 0) + " Gop/s"});
  table.add_row({"F32 peak", format_fixed(machine.f32_gflops, 0) + " Gflop/s"});
  if (machine.bf16_gflops) table.add_row({"BF16 peak", format_fixed(*machine.bf16_gflops, 0) + " Gflop/s"});
  table.add_row({"oneDNN", built.onednn ? "found" : "not found: floats are multiplied by ballast's own kernels"});
  table.add_row({"MPI", built.mpi ? "found" : "not found: mpirun cannot share work"});
  return table.text();
}

/// Returns the limits of models of common sizes: memory limits generation, multiplication prompts.
std::string model_table(const Machine& machine) {
  struct Format {
    const char* title;
    double bits;  ///< of a weight, with scales
  };
  constexpr std::array kFormats = {Format{"w8a8", 8.4}, Format{"w4a8", 4.9}, Format{"2.5 bits", 2.5}};
  constexpr std::array kBillions = {0.5, 1.5, 4.0, 8.0, 14.0, 32.0, 70.0};
  constexpr double kBillion = 1e9;
  using enum Table::Align;
  std::vector<Table::Column> columns = {{"weights", kRight}};
  for (const Format& format : kFormats) columns.insert(columns.end(), {{format.title, kRight}, {"tokens/s", kRight}});
  columns.push_back({"prompt tokens/s", kRight});
  Table table(std::move(columns));
  for (const double billions : kBillions) {
    std::vector<std::string> row = {format_fixed(billions, 1) + "B"};
    for (const Format& format : kFormats) {
      const double bytes = billions * kBillion * format.bits / 8;
      const bool fits = bytes < static_cast<double>(machine.available_memory_bytes);
      row.push_back(text::format_bytes(static_cast<std::uint64_t>(bytes)));
      row.push_back(fits ? format_fixed(machine.read_gb_s * kBillion / bytes, 1) : "too large");
    }
    row.push_back(format_fixed(machine.int8_gops / (2 * billions), 0));
    table.add_row(std::move(row));
  }
  return table.text();
}

int run_doctor(const DoctorFlags& flags) {
  use_processor(flags.job);
  const Machine machine = examine_machine();
  if (flags.json) {
    print(machine_json(machine) + "\n");
    return kExitDone;
  }
  std::string page = machine_table(machine);
  page += "\nAt most, for dense models: generation is limited by memory, prompts by multiplication.\n\n";
  page += model_table(machine);
  const std::vector<std::string> advice = machine_advice(machine);
  if (!advice.empty()) page += "\nWhat could be better:\n";
  for (const std::string& line : advice) page += "  - " + line + "\n";
  print(page);
  return kExitDone;
}

}  // namespace

void add_doctor(CLI::App& program, Action& action) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App* command =
      program.add_subcommand("doctor", "Examine the machine: instructions, memory, and what they allow");
  command->add_flag("--json", flags->json, "Print one JSON object");
  add_processor_flags(*command, flags->job);
  command->footer("Example:\n  ballast doctor");
  command->callback([flags, &action] { action = [flags] { return run_doctor(*flags); }; });
}

}  // namespace ballast::tools
