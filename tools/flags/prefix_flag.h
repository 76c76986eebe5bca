// The flag of calibrate and convert that sets the tokens before every sequence.
#ifndef BALLAST_TOOLS_FLAGS_PREFIX_FLAG_H_
#define BALLAST_TOOLS_FLAGS_PREFIX_FLAG_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "ballast/prefix.h"

namespace ballast::tools {

void add_prefix_flag(CLI::App& command, std::optional<std::string>& prefix);

/// Throws UsageError.
CachedPrefix prefix_from_flag(const std::string& text);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_FLAGS_PREFIX_FLAG_H_
