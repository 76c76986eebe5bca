// The subcommands of the program, one file each.
#ifndef BALLAST_TOOLS_COMMANDS_COMMANDS_H_
#define BALLAST_TOOLS_COMMANDS_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <functional>

namespace ballast::tools {

/// The command to run after parsing; returns the exit code.
using Action = std::function<int()>;

// Each function adds its subcommand to `program`; parsing it sets `action`, which must live as long as `program`.
void add_inspect(CLI::App& program, Action& action);
void add_calibrate(CLI::App& program, Action& action);
void add_convert(CLI::App& program, Action& action);
void add_export(CLI::App& program, Action& action);
void add_verify(CLI::App& program, Action& action);
void add_eval(CLI::App& program, Action& action);
void add_sweep(CLI::App& program, Action& action);
void add_run(CLI::App& program, Action& action);
void add_bench(CLI::App& program, Action& action);
void add_doctor(CLI::App& program, Action& action);
void add_serve(CLI::App& program, Action& action);
void add_embed(CLI::App& program, Action& action);
void add_classify(CLI::App& program, Action& action);
void add_translate(CLI::App& program, Action& action);

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

inline constexpr const char* kModelHelp =
    "A Hugging Face directory, a .gguf file, a directory that ballast wrote, or a name on the Hub";

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_COMMANDS_COMMANDS_H_
