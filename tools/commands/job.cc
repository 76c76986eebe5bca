#include "tools/commands/job.h"

#include <string_view>

#include "ballast/threads.h"
#include "tools/commands/option_checks.h"

namespace ballast::tools {

void add_thread_flags(CLI::App& command, JobFlags& flags) {
  // More than any pool of threads is good for, and few enough that starting them does not fail.
  constexpr std::size_t kMostThreads = 1024;
  command
      .add_option("-t,--threads", flags.threads.count, "Threads [OMP_NUM_THREADS, else the physical cores available]")
      ->type_name("N")
      ->check(whole_number(1, kMostThreads));
  command.add_flag("--pin", flags.threads.pin, "Keep each thread on a core of its own");
}

void add_quiet_flag(CLI::App& command, JobFlags& flags) {
  command.add_flag("-q,--quiet", flags.quiet, "No progress on standard error");
}

Job::Job(const JobFlags& flags) {
  use_threads(flags.threads);
  if (!flags.quiet) bar_.emplace(message_screen());
}

Progress Job::progress() {
  return [this](std::string_view stage, std::size_t done, std::size_t total) {
    if (const int signal = pending_interrupt(); signal != 0) throw Interrupted(signal);
    if (bar_) bar_->update(stage, done, total);
  };
}

}  // namespace ballast::tools
