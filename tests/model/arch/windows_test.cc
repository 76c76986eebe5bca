#include <doctest/doctest.h>

#include <vector>

#include "described.h"
#include "error_message.h"
#include "layers.h"

namespace ballast::model::windows_test {

using nlohmann::json;
using test::described;
using test::error_message;
using test::with_field;
using Windows = std::vector<std::size_t>;

json config_of(const char* model_type) {
  return {
      {"model_type", model_type}, {"num_hidden_layers", 3}, {"hidden_size", 32},          {"num_attention_heads", 4},
      {"intermediate_size", 40},  {"vocab_size", 10},       {"use_sliding_window", true}, {"head_dim", 8}};
}

Windows windows_of(const json& config) {
  Windows windows;
  for (const LayerSpec& layer : described(config).layers) windows.push_back(layer.attention()->window);
  return windows;
}

TEST_CASE("Mistral's window holds for every layer, and null means none") {
  CHECK(windows_of(with_field(config_of("mistral"), "sliding_window", 7)) == Windows{7, 7, 7});
  CHECK(windows_of(with_field(config_of("mistral"), "sliding_window", nullptr)) == Windows{0, 0, 0});
  CHECK(windows_of(config_of("mistral")) == Windows{4096, 4096, 4096});  // transformers' default
  json mixed = with_field(config_of("mistral"), "sliding_window", 7);
  mixed["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  CHECK(test::error_message([&] { described(mixed); }) ==
        test::Contains("layer_types[1]: 'full_attention' is not supported"));
}

TEST_CASE("Ministral's window applies to the layers of the sliding type") {
  json config = with_field(config_of("ministral"), "sliding_window", 7);
  config["num_key_value_heads"] = 2;
  CHECK(windows_of(config) == Windows{7, 7, 7});
  config["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  CHECK(windows_of(config) == Windows{7, 0, 7});
}

TEST_CASE("Qwen's window holds for the layers from max_window_layers on, and only when it is used") {
  for (const char* family : {"qwen2", "qwen3"}) {
    CAPTURE(family);
    json config = with_field(config_of(family), "sliding_window", 7);
    CHECK(windows_of(config) == Windows{0, 0, 0});  // by default 28 layers have full attention
    config["max_window_layers"] = 1;
    CHECK(windows_of(config) == Windows{0, 7, 7});
    config["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
    CHECK(windows_of(config) == Windows{7, 0, 7});
    config["use_sliding_window"] = false;
    CHECK(windows_of(config) == Windows{0, 0, 0});
  }
}

TEST_CASE("a decoder may be bidirectional, but not with a window") {
  nlohmann::json config = config_of("qwen2");
  config["is_causal"] = false;
  CHECK_FALSE(described(config).causal);
  config["use_sliding_window"] = true;
  config["max_window_layers"] = 0;
  CHECK(error_message([&] { described(config); }) == test::Contains("is_causal: false with a window"));
}

TEST_CASE("Qwen2 has biases on queries, keys and values; Qwen3 norms over heads") {
  const ModelSpec qwen2 = described(config_of("qwen2"));
  CHECK(qwen2.biases.key);
  CHECK(!qwen2.biases.attention_output);
  CHECK(!test::attention_of(qwen2).query_key_norm);
  const ModelSpec qwen3 = described(config_of("qwen3"));
  CHECK(!qwen3.biases.key);
  CHECK(test::attention_of(qwen3).query_key_norm);
}

TEST_CASE("an absurd number of layers is refused before a list of windows is made") {
  CHECK(
      test::refusal_of_field(with_field(config_of("mistral"), "sliding_window", 7), "num_hidden_layers", 2147483646) ==
      "config.json: num_hidden_layers: 2147483646 blocks are more than any model has");
}

TEST_CASE("layer types that are not known or do not fit the layers are refused") {
  const json config = with_field(config_of("qwen3"), "sliding_window", 7);
  const auto refusal = [&](const json& types) { return test::refusal_of_field(config, "layer_types", types); };
  CHECK(refusal({"full_attention", "full_attention"}) == "config.json: layer_types: has 2 entries for 3 layers");
  CHECK(refusal({"full_attention", "mamba", "full_attention"}) ==
        "config.json: layer_types[1]: 'mamba' is not supported; supported: full_attention, sliding_attention");
  CHECK(test::refusal_of_field(config, "sliding_window", -1) ==
        "config.json: sliding_window: must be between 1 and 2^31 - 1, is -1");
}

}  // namespace ballast::model::windows_test
