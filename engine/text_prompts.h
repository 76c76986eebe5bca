// The prompts that a model was trained to read before queries and documents.
#ifndef BALLAST_ENGINE_TEXT_PROMPTS_H_
#define BALLAST_ENGINE_TEXT_PROMPTS_H_

#include <optional>
#include <string>

#include "ballast/spec.h"

namespace ballast::engine {

/// Returns the prompt of this name; without a name the model's default, and for "" none. Throws Error listing the names
/// that the model has.
std::string prompt_named(const ModelSpec& spec, const std::optional<std::string>& name);

/// Return the names of the prompts before queries and documents, as sentence-transformers chooses them: `query`; the
/// first of `document`, `passage` and `corpus`. Nullopt: the model has none of them, so that its default is used.
std::optional<std::string> query_prompt(const ModelSpec& spec);
std::optional<std::string> document_prompt(const ModelSpec& spec);

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_TEXT_PROMPTS_H_
