#include <doctest/doctest.h>

#include <vector>

#include "described.h"
#include "layers.h"

namespace ballast::model::smollm3_test {

using nlohmann::json;
using test::described;
using test::with_field;

const json kConfig = {{"model_type", "smollm3"},  {"num_hidden_layers", 5},  {"hidden_size", 32},
                      {"num_attention_heads", 4}, {"intermediate_size", 40}, {"vocab_size", 10}};

std::vector<bool> rotated(const json& config) {
  std::vector<bool> layers;
  for (const LayerSpec& layer : described(config).layers) layers.push_back(layer.attention()->rope.has_value());
  return layers;
}

std::vector<std::size_t> windows(const json& config) {
  std::vector<std::size_t> layers;
  for (const LayerSpec& layer : described(config).layers) layers.push_back(layer.attention()->window);
  return layers;
}

TEST_CASE("every fourth layer of SmolLM3 does not rotate unless a list or an interval overrides it") {
  CHECK(rotated(kConfig) == std::vector{true, true, true, false, true});
  CHECK(rotated(with_field(kConfig, "no_rope_layer_interval", 2)) == std::vector{true, false, true, false, true});
  // 1 marks a layer that rotates; the list may be longer than the model.
  CHECK(rotated(with_field(kConfig, "no_rope_layers", {0, 1, 0, 0, 1, 1})) ==
        std::vector{false, true, false, false, true});
}

TEST_CASE("SmolLM3 has windows only if they are enabled, in layers that do not rotate or of the given type") {
  using Windows = std::vector<std::size_t>;
  json config = with_field(kConfig, "sliding_window", 7);
  CHECK(windows(config) == Windows{0, 0, 0, 0, 0});
  config["use_sliding_window"] = true;
  CHECK(windows(config) == Windows{0, 0, 0, 7, 0});
  CHECK(windows(with_field(config, "sliding_window", nullptr)) == Windows{0, 0, 0, 0, 0});
  config["layer_types"] = {"sliding_attention", "full_attention", "full_attention", "full_attention", "full_attention"};
  CHECK(windows(config) == Windows{7, 0, 0, 0, 0});
}

TEST_CASE("SmolLM3 has the defaults of its configuration class") {
  const ModelSpec spec = described(kConfig);
  CHECK(test::attention_of(spec).kv_heads == 4);
  CHECK(described(with_field(kConfig, "num_attention_heads", 8)).layers[0].attention()->kv_heads == 4);
  json null_heads = with_field(kConfig, "num_attention_heads", 8);
  null_heads["num_key_value_heads"] = nullptr;
  CHECK(described(null_heads).layers[0].attention()->kv_heads == 8);
  CHECK(test::attention_of(spec).rope->theta == 2e6);
  CHECK(spec.context_length == 32768);
  CHECK(spec.tied_embeddings);
}

TEST_CASE("invalid settings of SmolLM3 are refused by field") {
  CHECK(test::refusal_of_field(kConfig, "no_rope_layers", {1, 0}) ==
        "config.json: no_rope_layers: has 2 entries for 5 layers");
  CHECK(test::refusal_of_field(kConfig, "no_rope_layers", {1, 0, 2, 1, 1}) ==
        "config.json: no_rope_layers[2]: must be between 0 and 1, is 2");
  CHECK(test::refusal_of_field(kConfig, "no_rope_layer_interval", 0) ==
        "config.json: no_rope_layer_interval: must be between 1 and 2^31 - 1, is 0");
  const std::vector<std::string> types(5, "sliding_attention");
  CHECK(test::refusal_of_field(kConfig, "layer_types", types) ==
        "config.json: layer_types[0]: 'sliding_attention' is not supported; supported: full_attention");
}

}  // namespace ballast::model::smollm3_test
