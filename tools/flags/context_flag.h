// The flag that selects a model's longer context.
#ifndef BALLAST_TOOLS_FLAGS_CONTEXT_FLAG_H_
#define BALLAST_TOOLS_FLAGS_CONTEXT_FLAG_H_

#include <CLI/CLI.hpp>
#include <cstddef>

namespace ballast::tools {

/// Adds --context: ModelOptions::context.
CLI::Option* add_context_flag(CLI::App& command, std::size_t& tokens);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_FLAGS_CONTEXT_FLAG_H_
