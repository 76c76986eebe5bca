// The models of `ballast serve`: words of the command line, a folder, or a file.
#ifndef BALLAST_TOOLS_FLAGS_SERVED_MODELS_H_
#define BALLAST_TOOLS_FLAGS_SERVED_MODELS_H_

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/serve.h"

namespace ballast::tools {

struct ServedModelFlags {
  std::vector<std::string> words;
  std::filesystem::path folder;
  std::filesystem::path file;
};

/// Adds MODEL, --models and --models-file.
void add_served_models(CLI::App& command, ServedModelFlags& flags);

/// Returns the models, each with these defaults. Throws UsageError for wrong words or none, and Error for a folder or a
/// file that cannot be read.
std::vector<ServedModel> read_served_models(const ServedModelFlags& flags, const ServedModel& defaults);

/// Reads "MODEL", "NAME=MODEL" or "NAME=MODEL,option=value,...". A path that exists is a path. Throws UsageError.
ServedModel read_model_word(const std::string& word, const ServedModel& defaults);

/// Reads {"models": [{"model": "qwen", "name": "coder", "alias": ["gpt-4"], ...}]}, with the options of a word. Paths
/// are relative to the file. Throws Error.
std::vector<ServedModel> read_models_file(const std::filesystem::path& file, const ServedModel& defaults);

/// Returns the folders and GGUFs in a folder that are models, by name. Throws Error if there is none.
std::vector<ServedModel> find_models(const std::filesystem::path& folder, const ServedModel& defaults);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_FLAGS_SERVED_MODELS_H_
