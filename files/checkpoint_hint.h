// Hints about a directory that cannot be read as a model.
#ifndef BALLAST_FILES_CHECKPOINT_HINT_H_
#define BALLAST_FILES_CHECKPOINT_HINT_H_

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace ballast::files {

/// Returns a text to be added to a message, "; PyTorch's pytorch_model.bin is not read: ...", or an empty string.
/// `config` is the directory's config.json, or null. Throws nothing about files.
std::string checkpoint_hint(const std::filesystem::path& directory, const nlohmann::json& config);

/// Returns whether a file exists; errors are left to opening it, which has better messages.
bool is_there(const std::filesystem::path& path);

}  // namespace ballast::files

#endif  // BALLAST_FILES_CHECKPOINT_HINT_H_
