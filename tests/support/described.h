// Describes a config.json by its architecture.
#ifndef BALLAST_TESTS_SUPPORT_DESCRIBED_H_
#define BALLAST_TESTS_SUPPORT_DESCRIBED_H_

#include <nlohmann/json.hpp>
#include <string>

#include "error_message.h"
#include "model/arch/architecture.h"

namespace ballast::test {

inline ModelSpec described(const nlohmann::json& config) {
  const std::string type = config.at("model_type");
  return model::architecture_for_model_type(type, "config.json").describe(files::JsonReader(config, "config.json"));
}

/// Returns `config` with one field changed; null removes it.
inline nlohmann::json with_field(nlohmann::json config, const std::string& field, const nlohmann::json& value) {
  config[field] = value;
  return config;
}

/// Returns the architecture's error for `config` with one field changed, or "no error".
inline std::string refusal_of_field(const nlohmann::json& config, const std::string& field,
                                    const nlohmann::json& value) {
  return error_message([&] { described(with_field(config, field, value)); });
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_DESCRIBED_H_
