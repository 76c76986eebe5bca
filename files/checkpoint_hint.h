// What a directory that cannot be read as a model holds instead, for a message that helps.
#ifndef BALLAST_FILES_CHECKPOINT_HINT_H_
#define BALLAST_FILES_CHECKPOINT_HINT_H_

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace ballast::files {

/// "; PyTorch's pytorch_model.bin is not read: ...", to be added to a message; empty when there is nothing to say.
/// `config`: the directory's config.json, or null. Throws nothing about files.
std::string checkpoint_hint(const std::filesystem::path& directory, const nlohmann::json& config);

/// Whatever keeps a file from being examined, opening it says so better.
bool is_there(const std::filesystem::path& path);

}  // namespace ballast::files

#endif  // BALLAST_FILES_CHECKPOINT_HINT_H_
