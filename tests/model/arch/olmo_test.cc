#include <doctest/doctest.h>

#include "described.h"
#include "layers.h"
#include "model/structure/block_structure.h"

namespace ballast::model::olmo_test {

const nlohmann::json kConfig = {{"model_type", "olmo2"},    {"num_hidden_layers", 2},   {"hidden_size", 32},
                                {"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"intermediate_size", 40},
                                {"vocab_size", 10}};

TEST_CASE("OLMo 2 has output norms of attention and MLP, and norms over all queries and over all keys") {
  const ModelSpec spec = test::described(kConfig);
  CHECK(spec.layout == BlockLayout::kOutputNorm);
  CHECK(spec.has_final_norm());
  CHECK(spec.norm.epsilon == 1e-5);
  CHECK(test::attention_of(spec).query_key_norm);
  CHECK(matrix_shape(spec, 0, Role::kQueryNorm) == MatrixShape{1, 32});
  CHECK(matrix_shape(spec, 0, Role::kKeyNorm) == MatrixShape{1, 16});
  CHECK(!spec.biases.query);
  CHECK(!spec.tied_embeddings);
  CHECK(test::described(test::with_field(kConfig, "attention_bias", true)).biases.attention_output);
}

TEST_CASE("OLMo 3 has a window in all layers but every fourth, and stretches rotation only where there is none") {
  nlohmann::json config = kConfig;
  config["model_type"] = "olmo3";
  config["num_hidden_layers"] = 4;
  config["rope_theta"] = 1000.0;
  config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 4.0}};
  const ModelSpec spec = test::described(config);
  CHECK(spec.layout == BlockLayout::kOutputNorm);
  for (std::size_t layer = 0; layer < 4; ++layer) {
    const AttentionSpec& attention = *spec.layers[layer].attention();
    CHECK(attention.window == (layer == 3 ? 0 : 4096));
    CHECK(attention.rope->theta == 1000.0);
    CHECK(attention.rope->factor == (layer == 3 ? 4.0 : 1.0));
  }
}

TEST_CASE("OLMoE has experts in every layer, and its norms before attention and MLP") {
  nlohmann::json config = kConfig;
  config["model_type"] = "olmoe";
  config["num_experts"] = 4;
  config["num_experts_per_tok"] = 2;
  const ModelSpec spec = test::described(config);
  CHECK(spec.layout == BlockLayout::kPreNorm);
  CHECK(test::attention_of(spec).query_key_norm->kind == HeadNormSpec::Kind::kRmsAllHeads);
  for (const LayerSpec& layer : spec.layers) {
    CHECK(layer.mlp.experts->size == 40);
    CHECK(!layer.mlp.experts->normalize);
  }
  CHECK(test::refusal_of_field(config, "clip_qkv", 8.0) == "config.json: clip_qkv: is not supported");
}

TEST_CASE("OLMo's LayerNorms have neither gain nor bias") {
  const nlohmann::json config = test::with_field(kConfig, "model_type", "olmo");
  const ModelSpec spec = test::described(config);
  CHECK(spec.layout == BlockLayout::kPreNorm);
  CHECK(spec.norm.kind == NormSpec::Kind::kLayer);
  CHECK(!spec.norm.gain);
  CHECK(!spec.norm.bias);
  CHECK(spec.norm.epsilon == 1e-5);
  CHECK(!test::attention_of(spec).query_key_norm);
  CHECK(test::refusal_of_field(config, "clip_qkv", 8.0) == "config.json: clip_qkv: is not supported");
}

TEST_CASE("FlexOlmo has OLMo 2's norms and experts in every layer") {
  nlohmann::json config = test::with_field(kConfig, "model_type", "flex_olmo");
  config["num_experts"] = 4;
  config["num_experts_per_tok"] = 2;
  const ModelSpec spec = test::described(config);
  CHECK(spec.layout == BlockLayout::kOutputNorm);
  CHECK(spec.norm.epsilon == 1e-6);
  CHECK(test::attention_of(spec).query_key_norm->kind == HeadNormSpec::Kind::kRmsAllHeads);
  CHECK(test::attention_of(spec).rope->theta == 500000.0);
  for (const LayerSpec& layer : spec.layers) CHECK(layer.mlp.experts->count == 4);
}

}  // namespace ballast::model::olmo_test
