#include "serve/api/sampling_defaults.h"

#include <string_view>

namespace ballast::serve {
namespace {

/// Calls use(name, the model's value, option) for each option.
template <typename Use>
void for_each_default(const GenerationDefaults& defaults, GenerateOptions& options, const Use& use) {
  use("temperature", defaults.temperature, options.temperature);
  use("top_k", defaults.top_k, options.top_k);
  use("top_p", defaults.top_p, options.top_p);
  use("min_p", defaults.min_p, options.min_p);
  use("repetition_penalty", defaults.repetition_penalty, options.repetition_penalty);
}

}  // namespace

void set_defaults(const RequestFields& fields, const GenerationDefaults& defaults, GenerateOptions& options) {
  for_each_default(defaults, options, [&](const char* name, const auto& value, auto& option) {
    // llama-server's name of a field counts, too.
    const bool said =
        fields.has(name) || (name == std::string_view("repetition_penalty") && fields.has("repeat_penalty"));
    if (value && !said) option = *value;
  });
}

nlohmann::ordered_json defaults_json(const GenerationDefaults& defaults) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  GenerateOptions options;
  for_each_default(defaults, options, [&](const char* name, const auto& value, auto& /*option*/) {
    if (value) json[name] = *value;
  });
  return json;
}

}  // namespace ballast::serve
