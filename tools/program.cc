#include "tools/program.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <exception>
#include <new>
#include <optional>
#include <string>

#include "ballast/error.h"
#include "ballast/ranks.h"
#include "tools/commands/commands.h"
#include "tools/flags/option_checks.h"
#include "tools/manual/manual_flags.h"
#include "tools/terminal/console.h"
#include "tools/terminal/failure.h"
#include "tools/terminal/interrupt.h"

namespace ballast::tools {
namespace {

constexpr const char* kExample = R"(Example:
  ballast calibrate SmolLM2-135M -o smollm2.stats
  ballast convert SmolLM2-135M -o smollm2-w8a8 --scheme w8a8 --stats smollm2.stats
  ballast eval smollm2-w8a8 --text wiki.txt --reference SmolLM2-135M

'ballast COMMAND --help' tells more about a command.)";

// Commands that share their work. In others every process would do the same work and print the same.
constexpr std::array kSharedByRanks = {"calibrate", "convert", "eval", "sweep"};

void refuse_idle_ranks(const CLI::App& program) {
  if (launched_ranks() == 1) return;
  for (const CLI::App* command : program.get_subcommands()) {
    if (std::ranges::find(kSharedByRanks, command->get_name()) == kSharedByRanks.end()) {
      throw UsageError(command->get_name() + " runs as one process: start it without mpirun");
    }
  }
}

// Returns the named subcommand, else the program.
std::string help_command(const CLI::App& program) {
  std::string command = "ballast";
  for (const CLI::App* subcommand : program.get_subcommands()) command += " " + subcommand->get_name();
  return command + " --help";
}

int usage_error(const CLI::App& program, const std::string& message) {
  if (leave_to_first_rank()) return kExitUsage;
  print_error(message);
  print_message("Try '" + help_command(program) + "'.\n");
  return kExitUsage;
}

int parse_and_run(CLI::App& program, const ManualFlags& manual, const Action& action, int argc,
                  const char* const* argv) {
  try {
    program.parse(argc, argv);
    if (const std::optional<std::string> text = manual_text(program, manual)) {
      print(*text);
      return kExitDone;
    }
    refuse_idle_ranks(program);
    if (!action) throw UsageError("a command is missing");
    return action();
  } catch (const CLI::CallForHelp&) {
    const auto chosen = program.get_subcommands();
    print(chosen.empty() ? program.help() : chosen.front()->help("ballast"));
  } catch (const CLI::CallForVersion& version) {
    print(version.what());
  } catch (const CLI::ParseError& error) {
    return usage_error(program, error.what());
  } catch (const UsageError& error) {
    return usage_error(program, error.what());
  }
  return kExitDone;
}

// Handles exceptions that cannot be caught, as in a thread of a parallel region.
[[noreturn]] void tell_and_exit() {
  wait_for_turn();
  try {
    if (const std::exception_ptr exception = std::current_exception()) std::rethrow_exception(exception);
    print_error("internal error: terminated without an exception");
  } catch (const std::bad_alloc&) {
    print_error("out of memory");
  } catch (const std::exception& error) {
    print_error(error.what());
  } catch (...) {
    print_error("internal error: an unknown exception");
  }
  ::_exit(kExitFailed);
}

}  // namespace

int run_program(int argc, const char* const* argv) {
  std::set_terminate(tell_and_exit);
  prepare_standard_streams();
  handle_interrupts();
  guard_mapped_files();
  try {
    CLI::App program("Makes language models small and fast on CPUs without losing what their outliers carry.",
                     "ballast");
    program.set_version_flag("--version", version_text, "Print the version and the features of this build, and exit");
    program.set_help_flag("-h,--help", "Print this help and exit");
    program.get_formatter()->column_width(32);
    program.footer(kExample);
    program.require_subcommand(0, 1);
    Action action;
    for (const auto add : {add_inspect, add_calibrate, add_convert, add_export, add_verify, add_eval, add_sweep,
                           add_run, add_serve, add_embed, add_classify, add_translate, add_bench, add_doctor}) {
      add(program, action);
    }
    ManualFlags manual;
    add_manual_flags(program, manual);
    return parse_and_run(program, manual, action, argc, argv);
  } catch (...) {
    wait_for_turn();
    return report_failure();
  }
}

}  // namespace ballast::tools
