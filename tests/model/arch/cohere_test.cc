#include <doctest/doctest.h>

#include "described.h"
#include "layers.h"

namespace ballast::model::cohere_test {

using nlohmann::json;
using test::described;
using test::with_field;

json config_of(const char* model_type) {
  return {{"model_type", model_type}, {"num_hidden_layers", 5},  {"hidden_size", 32},
          {"num_attention_heads", 4}, {"intermediate_size", 40}, {"vocab_size", 10}};
}

TEST_CASE("Cohere's halves share one LayerNorm without bias, and its logits are scaled") {
  for (const char* type : {"cohere", "cohere2"}) {
    CAPTURE(type);
    const ModelSpec spec = described(config_of(type));
    CHECK(spec.layout == BlockLayout::kParallelShared);
    CHECK(spec.norm.kind == NormSpec::Kind::kLayer);
    CHECK(!spec.norm.bias);
    CHECK(spec.norm.epsilon == 1e-5);
    CHECK(spec.logit_scale == 0.0625);
    CHECK(spec.tied_embeddings);
    CHECK(spec.context_length == 8192);
    CHECK(!spec.biases.query);
    CHECK(described(with_field(config_of(type), "logit_scale", 0.25)).logit_scale == 0.25);
    CHECK(described(with_field(config_of(type), "attention_bias", true)).biases.attention_output);
  }
  CHECK(test::attention_of(described(config_of("cohere"))).rope->theta == 500000.0);
  CHECK(test::attention_of(described(config_of("cohere"))).window == 0);
}

TEST_CASE("layers of Cohere2 with a window rotate; the others have full attention and do not rotate") {
  const auto check = [](const json& config, const std::vector<bool>& sliding, std::size_t window) {
    const ModelSpec spec = described(config);
    for (std::size_t layer = 0; layer < sliding.size(); ++layer) {
      CAPTURE(layer);
      CHECK(spec.layers[layer].attention()->window == (sliding[layer] ? window : 0));
      CHECK(spec.layers[layer].attention()->rope.has_value() == sliding[layer]);
    }
  };
  json config = config_of("cohere2");
  check(config, {true, true, true, false, true}, 4096);
  config["sliding_window_pattern"] = 2;
  check(config, {true, false, true, false, true}, 4096);
  config["sliding_window"] = 9;
  config["layer_types"] = {"full_attention", "sliding_attention", "full_attention", "full_attention", "full_attention"};
  check(config, {false, true, false, false, false}, 9);
}

TEST_CASE("Cohere's settings that are not supported are refused by field") {
  CHECK(test::refusal_of_field(config_of("cohere2"), "use_qk_norm", true) ==
        "config.json: use_qk_norm: true is not supported");
  CHECK(test::refusal_of_field(config_of("cohere2"), "sliding_window", nullptr) ==
        "config.json: sliding_window: missing");
  CHECK(test::refusal_of_field(config_of("cohere2"), "layer_types", {"full_attention"}) ==
        "config.json: layer_types: has 1 entries for 5 layers");
}

TEST_CASE("a Cohere may normalize each head of queries and keys with gains of its own") {
  CHECK(!test::attention_of(described(config_of("cohere"))).query_key_norm);
  const ModelSpec spec = described(with_field(config_of("cohere"), "use_qk_norm", true));
  const AttentionSpec& attention = test::attention_of(spec);
  CHECK(attention.query_key_norm);
  CHECK(attention.query_key_norm->kind == HeadNormSpec::Kind::kLayer);
  CHECK(!attention.query_key_norm->after_rotation);
}

}  // namespace ballast::model::cohere_test
