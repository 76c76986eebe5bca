// The common parts of commands that compute: flags, progress, and interrupts.
#ifndef BALLAST_TOOLS_COMMANDS_JOB_H_
#define BALLAST_TOOLS_COMMANDS_JOB_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "ballast/compute_options.h"
#include "ballast/progress.h"
#include "ballast/threads.h"
#include "tools/terminal/interrupt.h"
#include "tools/terminal/progress_bar.h"

namespace ballast::tools {

struct JobFlags {
  ThreadOptions threads = {.count = {}, .pin = {}};
  std::string target;  ///< empty: the best one
  std::string engine = "auto";
  bool bf16 = false;
  bool quiet = false;
};

/// Adds the flags of threads, instruction set and float GEMM.
void add_processor_flags(CLI::App& command, JobFlags& flags);
void add_bf16_flag(CLI::App& command, JobFlags& flags);
void use_processor(const JobFlags& flags);

/// Applies all flags except those of threads, for a program that has its own threads.
void use_instructions(const JobFlags& flags);

/// Returns the options of --engine and --bf16. Throws Error if this machine does not support them.
ComputeOptions compute_options(const JobFlags& flags);
void add_quiet_flag(CLI::App& command, JobFlags& flags);

/// Adds --json, and --verbose for all rows of a table.
void add_page_flags(CLI::App& command, bool& json, bool& verbose);

/// A running job: sets up the processor, shows progress unless quiet, and throws Interrupted from the job's next step
/// after an interrupt.
class Job {
 public:
  explicit Job(const JobFlags& flags);

  /// Valid as long as the Job.
  Progress progress();

 private:
  InterruptGuard guard_;
  std::optional<ProgressBar> bar_;
};

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_COMMANDS_JOB_H_
