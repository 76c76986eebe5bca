// Flags that print facts about the program: --version, --man, --completion.
#ifndef BALLAST_TOOLS_MANUAL_MANUAL_FLAGS_H_
#define BALLAST_TOOLS_MANUAL_MANUAL_FLAGS_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

namespace ballast::tools {

struct ManualFlags {
  std::string page;   ///< argument of --man
  std::string shell;  ///< argument of --completion
};

/// Must be called after all commands, whose names are pages, were added. `flags` must live as long as `program`.
void add_manual_flags(CLI::App& program, ManualFlags& flags);

/// Returns the requested text, or nullopt if none was requested.
std::optional<std::string> manual_text(CLI::App& program, const ManualFlags& flags);

/// Returns the version and the features of this build.
std::string version_text();

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_MANUAL_MANUAL_FLAGS_H_
