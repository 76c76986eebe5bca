// The flag that names adapters.
#ifndef BALLAST_TOOLS_FLAGS_ADAPTER_FLAG_H_
#define BALLAST_TOOLS_FLAGS_ADAPTER_FLAG_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "ballast/adapter.h"
#include "ballast/serve.h"

namespace ballast::tools {

/// Returns the files of "PATH" or "PATH:SCALE".
AdapterFiles parse_adapter(const std::string& text);

/// Returns the name and the files of "NAME=PATH" or "NAME=PATH:SCALE". Throws UsageError if it has no name.
NamedAdapter parse_named_adapter(const std::string& text);

/// Adds --adapter for one adapter.
CLI::Option* add_adapter_flag(CLI::App& command, std::optional<AdapterFiles>& adapter);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_FLAGS_ADAPTER_FLAG_H_
