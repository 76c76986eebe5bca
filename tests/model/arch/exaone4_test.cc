#include <doctest/doctest.h>

#include "described.h"

namespace ballast::model::exaone4_test {

const nlohmann::json kConfig = {{"model_type", "exaone4"},  {"num_hidden_layers", 4},   {"hidden_size", 32},
                                {"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"intermediate_size", 40},
                                {"vocab_size", 10}};

TEST_CASE("EXAONE 4's layers with a window rotate, those without do not") {
  const ModelSpec spec = test::described(kConfig);
  CHECK(spec.layout == BlockLayout::kOutputNorm);
  for (std::size_t layer = 0; layer < 4; ++layer) {
    const AttentionSpec& attention = *spec.layers[layer].attention();
    CHECK(attention.query_key_norm);
    CHECK(attention.query_key_norm->kind == HeadNormSpec::Kind::kRms);
    CHECK(attention.window == (layer == 3 ? 0 : 4096));
    CHECK(attention.rope.has_value() == (layer != 3));
  }
}

TEST_CASE("an EXAONE 4 without windows rotates in all layers") {
  const ModelSpec spec = test::described(test::with_field(kConfig, "sliding_window", nullptr));
  for (const LayerSpec& layer : spec.layers) {
    CHECK(layer.attention()->window == 0);
    CHECK(layer.attention()->rope);
  }
}

TEST_CASE("K-EXAONE has input norms, and all of its layers but the first have DeepSeek-V3's experts") {
  nlohmann::json config = test::with_field(kConfig, "model_type", "exaone_moe");
  config.update({{"num_experts", 6}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 8}});
  const ModelSpec spec = test::described(config);
  CHECK(spec.layout == BlockLayout::kPreNorm);
  CHECK(!spec.layers[3].attention()->rope);
  CHECK(!spec.layers[0].mlp.experts);
  const ExpertSpec& experts = *spec.layers[1].mlp.experts;
  CHECK(experts.scoring == ExpertSpec::Scoring::kSigmoid);
  CHECK(experts.correction_bias);
  CHECK(experts.shared_size == 8);
  CHECK(experts.scale == 2.5);
  CHECK(experts.groups == 1);
  config["mlp_layer_types"] = {"sparse", "dense", "dense", "sparse"};
  CHECK(test::described(config).layers[0].mlp.experts);
  CHECK(!test::described(config).layers[1].mlp.experts);
  CHECK(test::refusal_of_field(config, "mlp_layer_types", {"sparse", "thin", "dense", "dense"}) ==
        "config.json: mlp_layer_types[1]: 'thin' is not supported; supported: dense, sparse");
  CHECK(test::refusal_of_field(config, "mlp_layer_types", {"sparse"}) ==
        "config.json: mlp_layer_types: has 1 entries for 4 layers");
  CHECK(test::refusal_of_field(config, "n_group", 4) == "config.json: n_group: must divide the number of experts");
}

}  // namespace ballast::model::exaone4_test
