// Names of models on the Hub of Hugging Face.
#ifndef BALLAST_HUB_NAME_H_
#define BALLAST_HUB_NAME_H_

#include <filesystem>
#include <optional>
#include <string>

namespace ballast {

struct HubName {
  std::string repository;  ///< "OWNER/NAME"
  std::string file;  ///< one of its .gguf files, with the folders in which it is; empty: the repository's checkpoint
  std::string revision;  ///< branch, tag or commit; empty: the newest

  friend bool operator==(const HubName&, const HubName&) = default;
};

/// Reads "OWNER/NAME" or "OWNER/NAME/FILE.gguf", and "@REVISION" after either. Returns nullopt for anything else, and
/// for what can be a path, because the folder that it begins with exists.
std::optional<HubName> parse_hub_name(const std::filesystem::path& model);

/// Returns the command by which a user fetches it: "hf download OWNER/NAME".
std::string hub_command(const HubName& name);

}  // namespace ballast

#endif  // BALLAST_HUB_NAME_H_
