#include <doctest/doctest.h>

#include "described.h"
#include "layers.h"

namespace ballast::model::afmoe_test {

const nlohmann::json kConfig = {{"model_type", "afmoe"},    {"num_hidden_layers", 5},    {"hidden_size", 36},
                                {"num_attention_heads", 4}, {"num_key_value_heads", 2},  {"head_dim", 12},
                                {"intermediate_size", 40},  {"vocab_size", 10},          {"num_experts", 6},
                                {"num_experts_per_tok", 2}, {"moe_intermediate_size", 8}};

TEST_CASE("Trinity's layers with a window rotate, and its attention is normalized and gated") {
  const ModelSpec spec = test::described(kConfig);
  CHECK(spec.layout == BlockLayout::kPreNorm);
  CHECK(spec.post_norms);
  CHECK(spec.norm.epsilon == 1e-5);
  CHECK(spec.embedding_scale == 1.0);
  for (std::size_t layer = 0; layer < 5; ++layer) {
    const AttentionSpec& attention = *spec.layers[layer].attention();
    CHECK(attention.query_key_norm);
    CHECK(attention.output_gate);
    CHECK(attention.window == (layer == 3 ? 0 : 1024));
    CHECK(attention.rope.has_value() == (layer != 3));
  }
  CHECK(test::described(test::with_field(kConfig, "mup_enabled", true)).embedding_scale == 6.0);
  const BiasSpec biases = test::described(test::with_field(kConfig, "attention_bias", true)).biases;
  for (const bool bias : {biases.query, biases.key, biases.value, biases.attention_output}) CHECK(bias);
  CHECK(!biases.output_gate);
}

TEST_CASE("Trinity has routed and shared experts after its dense layers") {
  nlohmann::json config = kConfig;
  config["route_scale"] = 1.5;
  config["num_dense_layers"] = 2;
  const ModelSpec spec = test::described(config);
  CHECK(!spec.layers[1].mlp.experts);
  const ExpertSpec& experts = *spec.layers[2].mlp.experts;
  CHECK(experts.scoring == ExpertSpec::Scoring::kSigmoid);
  CHECK(experts.correction_bias);
  CHECK(experts.normalize);
  CHECK(experts.shared_size == 16);
  CHECK(experts.scale == 1.5);
}

TEST_CASE("Trinity's settings that are not supported are refused by field") {
  CHECK(test::refusal_of_field(kConfig, "n_group", 2) == "config.json: n_group: must be 1");
  CHECK(test::refusal_of_field(kConfig, "num_limited_groups", 2) == "config.json: num_limited_groups: must be 1");
  CHECK(test::refusal_of_field(kConfig, "route_norm", false) == "config.json: route_norm: false is not supported");
  CHECK(test::refusal_of_field(kConfig, "score_func", "softmax") ==
        "config.json: score_func: 'softmax' is not supported; supported: sigmoid");
}

}  // namespace ballast::model::afmoe_test
