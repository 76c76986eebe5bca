// What every command that computes has in common: its flags, its progress, and how an interrupt ends it.
#ifndef BALLAST_TOOLS_COMMANDS_JOB_H_
#define BALLAST_TOOLS_COMMANDS_JOB_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "ballast/progress.h"
#include "ballast/threads.h"
#include "tools/terminal/interrupt.h"
#include "tools/terminal/progress_bar.h"

namespace ballast::tools {

struct JobFlags {
  ThreadOptions threads = {.count = {}, .pin = {}};
  std::string target;  ///< empty: the best
  std::string engine = "auto";
  bool bf16 = false;
  bool quiet = false;
};

/// Threads, instruction set, and who multiplies floats.
void add_processor_flags(CLI::App& command, JobFlags& flags);
void add_bf16_flag(CLI::App& command, JobFlags& flags);
void use_processor(const JobFlags& flags);

/// The same but for the threads, for a program whose threads are not to be this one's.
void use_instructions(const JobFlags& flags);
void add_quiet_flag(CLI::App& command, JobFlags& flags);

/// Adds --json, and --verbose for all rows of a table.
void add_page_flags(CLI::App& command, bool& json, bool& verbose);

/// A job under way: sets up the processor, shows progress unless quiet, and turns an interrupt into Interrupted, thrown
/// from the job's next step.
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
