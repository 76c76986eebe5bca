// What the program says of itself: --version, --man, --completion.
#ifndef BALLAST_TOOLS_MANUAL_MANUAL_FLAGS_H_
#define BALLAST_TOOLS_MANUAL_MANUAL_FLAGS_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

namespace ballast::tools {

struct ManualFlags {
  std::string page;   ///< of --man
  std::string shell;  ///< of --completion
};

/// Once all commands are added, whose names are pages. `flags` must live as long as `program`.
void add_manual_flags(CLI::App& program, ManualFlags& flags);

/// What was asked for; none where nothing was.
std::optional<std::string> manual_text(CLI::App& program, const ManualFlags& flags);

/// The version, and below it what this build has.
std::string version_text();

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_MANUAL_MANUAL_FLAGS_H_
