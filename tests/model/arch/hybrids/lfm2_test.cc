#include <doctest/doctest.h>

#include "described.h"

namespace ballast::model::lfm2_test {

const nlohmann::json kConfig = {{"model_type", "lfm2"},     {"num_hidden_layers", 3},   {"hidden_size", 32},
                                {"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"intermediate_size", 400},
                                {"vocab_size", 10},         {"full_attn_idxs", {1}}};

bool convolves(const LayerSpec& layer) {
  return std::holds_alternative<ShortConvolutionSpec>(layer.mixer);
}

TEST_CASE("LFM2's layers are convolutions except those listed as attention, by index or by type") {
  nlohmann::json config = kConfig;
  for (const bool by_type : {false, true}) {
    if (by_type) config["layer_types"] = {"conv", "full_attention", "conv"};
    const ModelSpec spec = test::described(config);
    CHECK(convolves(spec.layers[0]));
    CHECK(!convolves(spec.layers[1]));
    CHECK(convolves(spec.layers[2]));
    CHECK(spec.first_attention()->query_key_norm);
    CHECK(spec.first_attention()->rope->theta == 1e6);
    CHECK(std::get<ShortConvolutionSpec>(spec.layers[0].mixer).width == 3);
    CHECK(spec.tied_embeddings);
    CHECK(spec.norm.epsilon == 1e-5);
  }
}

TEST_CASE("LFM2's convolutions, and the projections around them, may have biases") {
  for (const bool bias : {false, true}) {
    const ModelSpec spec = test::described(test::with_field(kConfig, "conv_bias", bias));
    CHECK(std::get<ShortConvolutionSpec>(spec.layers[0].mixer).bias == bias);
    CHECK(spec.biases.mixer_input == bias);
    CHECK(spec.biases.mixer_output == bias);
    CHECK(!spec.biases.query);
  }
}

TEST_CASE("LFM2's MLPs have two thirds of the configured channels, rounded up to a multiple") {
  const auto size = [](const char* field, const nlohmann::json& value) {
    return test::described(test::with_field(kConfig, field, value)).layers[0].mlp.size;
  };
  CHECK(size("block_multiple_of", 256) == 512);  // rounded up from 266
  CHECK(size("block_multiple_of", 100) == 300);
  CHECK(size("block_ffn_dim_multiplier", nullptr) == 266);
  CHECK(size("block_auto_adjust_ff_dim", false) == 400);
  CHECK(size("block_ff_dim", 900) == 768);  // rounded up from 600
}

TEST_CASE("LFM2's mixtures have experts after their dense layers, chosen by corrected sigmoids") {
  nlohmann::json config = kConfig;
  config.update({{"model_type", "lfm2_moe"},
                 {"layer_types", {"conv", "full_attention", "conv"}},
                 {"num_dense_layers", 1},
                 {"num_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 24}});
  const ModelSpec spec = test::described(config);
  CHECK(convolves(spec.layers[0]));
  CHECK(spec.layers[0].mlp.size == 400);  // as configured
  CHECK(!spec.layers[0].mlp.experts);
  const ExpertSpec& experts = *spec.layers[1].mlp.experts;
  CHECK(experts.size == 24);
  CHECK(experts.scoring == ExpertSpec::Scoring::kSigmoid);
  CHECK(experts.correction_bias);
  CHECK(experts.normalize);
  CHECK(experts.sum_offset == 1e-6);
  CHECK(!test::described(test::with_field(config, "use_expert_bias", false)).layers[1].mlp.experts->correction_bias);
  CHECK(test::refusal_of_field(config, "layer_types", nullptr) == "config.json: layer_types: missing");
}

}  // namespace ballast::model::lfm2_test
