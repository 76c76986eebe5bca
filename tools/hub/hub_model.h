// Models that are named as on the Hub of Hugging Face.
#ifndef BALLAST_TOOLS_HUB_HUB_MODEL_H_
#define BALLAST_TOOLS_HUB_HUB_MODEL_H_

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tools/commands/commands.h"

namespace ballast::tools {

/// Returns the model's path: a name on the Hub is replaced by the place in the Hub's cache to which huggingface_hub has
/// fetched it, and a message says so. Returns other arguments as they are, and names, too, if there is no
/// huggingface_hub; opening these fails with the command that fetches them. Throws Error.
std::filesystem::path local_model(const std::filesystem::path& model);

/// Returns the action of a command: makes `model` of its flags and the `others` local, then runs it.
template <class Flags>
Action with_local_models(std::shared_ptr<Flags> flags, int (*run)(const Flags&),
                         std::vector<std::optional<std::filesystem::path>*> others = {}) {
  return [flags = std::move(flags), run, others = std::move(others)] {
    flags->model = local_model(flags->model);
    for (std::optional<std::filesystem::path>* other : others) {
      if (*other) *other = local_model(**other);
    }
    return run(*flags);
  };
}

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_HUB_HUB_MODEL_H_
