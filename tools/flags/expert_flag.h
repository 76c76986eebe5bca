// The flag that leaves experts of a mixture on disk, and what that came to.
#ifndef BALLAST_TOOLS_FLAGS_EXPERT_FLAG_H_
#define BALLAST_TOOLS_FLAGS_EXPERT_FLAG_H_

#include <CLI/CLI.hpp>
#include <string>

#include "ballast/model_options.h"

namespace ballast::tools {

/// --expert-memory, as text.
CLI::Option* add_expert_flag(CLI::App& command, std::string& size);

/// Options of a flag's text; empty: the defaults. Throws UsageError.
ModelOptions model_options(const std::string& expert_memory);

/// "93.1 % of 1,234 in memory, 1.21 GB read; 32 of 128 experts in 402 MB".
std::string expert_text(const ExpertFigures& figures);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_FLAGS_EXPERT_FLAG_H_
