// The flags of generated text that several commands have.
#ifndef BALLAST_TOOLS_FLAGS_DRAFT_FLAGS_H_
#define BALLAST_TOOLS_FLAGS_DRAFT_FLAGS_H_

#include <CLI/CLI.hpp>
#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>

namespace ballast::tools {

/// --temperature. The default is what `temperature` is.
CLI::Option* add_temperature_flag(CLI::App& command, std::optional<double>& temperature);

/// --draft and --draft-tokens, which may be 0 where the command generates without drafts, too.
std::array<CLI::Option*, 2> add_draft_flags(CLI::App& command, std::optional<std::filesystem::path>& model,
                                            std::size_t& tokens, bool may_be_none);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_FLAGS_DRAFT_FLAGS_H_
