#include "engine/text_prompts.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "ballast/error.h"

namespace ballast::engine {

namespace {

std::optional<std::string> first_prompt(const ModelSpec& spec, std::initializer_list<std::string_view> names) {
  if (!spec.text_vectors) return {};
  const std::vector<TextPrompt>& prompts = spec.text_vectors->prompts;
  for (const std::string_view name : names) {
    if (std::ranges::find(prompts, name, &TextPrompt::name) != prompts.end()) return std::string(name);
  }
  return {};
}

}  // namespace

std::string prompt_named(const ModelSpec& spec, const std::optional<std::string>& name) {
  const TextVectorSpec vectors = spec.text_vectors.value_or(TextVectorSpec{});
  const std::string wanted = name.value_or(vectors.default_prompt);
  if (wanted.empty()) return {};
  std::string known;
  for (const TextPrompt& prompt : vectors.prompts) {
    if (prompt.name == wanted) return prompt.text;
    known += (known.empty() ? "" : ", ") + prompt.name;
  }
  throw Error("prompt name",
              "'" + wanted + "' is unknown; the model has " + (known.empty() ? "no prompts" : "these: " + known));
}

std::optional<std::string> query_prompt(const ModelSpec& spec) {
  return first_prompt(spec, {"query"});
}

std::optional<std::string> document_prompt(const ModelSpec& spec) {
  return first_prompt(spec, {"document", "passage", "corpus"});
}

}  // namespace ballast::engine
