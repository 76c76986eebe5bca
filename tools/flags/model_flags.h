// Flags of loading a model, and a text about its expert cache.
#ifndef BALLAST_TOOLS_FLAGS_MODEL_FLAGS_H_
#define BALLAST_TOOLS_FLAGS_MODEL_FLAGS_H_

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "ballast/model_options.h"

namespace ballast::tools {

struct ModelFlags {
  ActivationType activations = ModelOptions{}.activations;
  std::string expert_memory;  ///< empty: no limit
};

/// Adds --activations and --expert-memory.
void add_model_flags(CLI::App& command, ModelFlags& flags);

/// Adds --generation-config: ModelOptions::generation_config. `whose` names the user of the defaults.
void add_generation_config_flag(CLI::App& command, bool& used, const std::string& whose);

/// Adds --source-language and --target-language, for models with an encoder and a decoder.
void add_language_flags(CLI::App& command, std::string& source, std::string& target);

/// Adds --chat-template: ModelOptions::chat_template.
void add_chat_template_flag(CLI::App& command, std::filesystem::path& file);

/// Adds --reply-format: GenerateOptions::reply_format.
void add_reply_format_flag(CLI::App& command, std::string& format);

/// Returns options whose notes about loading are printed as messages unless `quiet`. Throws UsageError.
ModelOptions model_options(const ModelFlags& flags, const ComputeOptions& compute, bool quiet);

/// Returns "93.1 % of 1,234 in memory, 1.21 GB read; 32 of 128 experts in 402 MB".
std::string expert_text(const ExpertFigures& figures);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_FLAGS_MODEL_FLAGS_H_
