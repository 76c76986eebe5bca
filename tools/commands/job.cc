#include "tools/commands/job.h"

#include <string_view>

#include "ballast/processor.h"
#include "ballast/threads.h"
#include "tools/flags/option_checks.h"

namespace ballast::tools {

void add_processor_flags(CLI::App& command, JobFlags& flags) {
  // More threads than any machine can use, and few enough that starting them does not fail.
  constexpr std::size_t kMostThreads = 1024;
  command
      .add_option("-t,--threads", flags.threads.count, "Threads [OMP_NUM_THREADS, else the physical cores available]")
      ->type_name("N")
      ->check(whole_number(1, kMostThreads));
  auto* pin = command.add_flag_callback(
      "--pin", [&flags] { flags.threads.pin = true; }, "Bind each thread to a core [if the process has its own CPUs]");
  command.add_flag_callback(
             "--no-pin", [&flags] { flags.threads.pin = false; }, "Let the system move threads")
      ->excludes(pin);
  command.add_option("--target", flags.target, "Limit the kernels to an instruction set, for comparisons [the best]")
      ->type_name("NAME");
  command.add_option("--engine", flags.engine, "F32 products of prompts: ballast, onednn, or auto, the faster one")
      ->type_name("NAME")
      ->capture_default_str();
}

void add_bf16_flag(CLI::App& command, JobFlags& flags) {
  command.add_flag("--bf16", flags.bf16, "Round floats to BF16 before they are multiplied: faster, less accurate");
}

void use_processor(const JobFlags& flags) {
  use_threads(flags.threads);
  use_instructions(flags);
}

void use_instructions(const JobFlags& flags) {
  if (!flags.target.empty()) use_simd_target(flags.target);
  compute_options(flags);  // what this machine lacks is refused before the work begins
}

ComputeOptions compute_options(const JobFlags& flags) {
  const ComputeOptions options = {.float_gemm = parse_float_gemm(flags.engine), .bf16_products = flags.bf16};
  check_compute_options(options);
  return options;
}

void add_page_flags(CLI::App& command, bool& json, bool& verbose) {
  command.add_flag("--json", json, "Print one JSON object");
  command.add_flag("--verbose", verbose, "Print all rows of the table, not a screen of them");
}

void add_quiet_flag(CLI::App& command, JobFlags& flags) {
  command.add_flag("-q,--quiet", flags.quiet, "No progress on standard error");
}

Job::Job(const JobFlags& flags) {
  use_processor(flags);
  if (!flags.quiet) bar_.emplace(message_screen());
}

Progress Job::progress() {
  return [this](std::string_view stage, std::size_t done, std::size_t total) {
    if (const int signal = pending_interrupt(); signal != 0) throw Interrupted(signal);
    if (bar_) bar_->update(stage, done, total);
  };
}

}  // namespace ballast::tools
