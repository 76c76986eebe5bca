// How a model is loaded, by flags, and what leaving experts on disk came to.
#ifndef BALLAST_TOOLS_FLAGS_MODEL_FLAGS_H_
#define BALLAST_TOOLS_FLAGS_MODEL_FLAGS_H_

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "ballast/model_options.h"

namespace ballast::tools {

struct ModelFlags {
  ModelOptions::Activations activations = ModelOptions{}.activations;
  std::string expert_memory;  ///< empty: no limit
};

/// --activations and --expert-memory.
void add_model_flags(CLI::App& command, ModelFlags& flags);

/// --generation-config: ModelOptions::generation_config. `whose` says for what its values are the defaults.
void add_generation_config_flag(CLI::App& command, bool& used, const std::string& whose);

/// --chat-template: ModelOptions::chat_template.
void add_chat_template_flag(CLI::App& command, std::filesystem::path& file);

/// --reply-format: GenerateOptions::reply_format.
void add_reply_format_flag(CLI::App& command, std::string& format);

/// What is told of loading becomes a message unless `quiet`. Throws UsageError.
ModelOptions model_options(const ModelFlags& flags, bool quiet);

/// "93.1 % of 1,234 in memory, 1.21 GB read; 32 of 128 experts in 402 MB".
std::string expert_text(const ExpertFigures& figures);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_FLAGS_MODEL_FLAGS_H_
