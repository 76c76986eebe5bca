// Flags of generation that several commands share.
#ifndef BALLAST_TOOLS_FLAGS_DRAFT_FLAGS_H_
#define BALLAST_TOOLS_FLAGS_DRAFT_FLAGS_H_

#include <CLI/CLI.hpp>
#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>

namespace ballast::tools {

/// Adds --temperature, with `temperature` as the default.
CLI::Option* add_temperature_flag(CLI::App& command, std::optional<double>& temperature);

/// Adds --draft and --draft-tokens, which may be 0 if the command can generate without drafts.
std::array<CLI::Option*, 2> add_draft_flags(CLI::App& command, std::optional<std::filesystem::path>& model,
                                            std::size_t& tokens, bool may_be_none);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_FLAGS_DRAFT_FLAGS_H_
