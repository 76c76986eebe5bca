#include <doctest/doctest.h>

#include "described.h"

namespace ballast::model::nemotron_h_test {

using nlohmann::json;

const json kConfig = {{"model_type", "nemotron_h"},
                      {"hidden_size", 32},
                      {"vocab_size", 10},
                      {"num_attention_heads", 4},
                      {"num_key_value_heads", 2},
                      {"head_dim", 12},
                      {"intermediate_size", 40},
                      {"mamba_num_heads", 6},
                      {"mamba_head_dim", 5},
                      {"n_groups", 3},
                      {"ssm_state_size", 7},
                      {"n_routed_experts", 8},
                      {"num_experts_per_tok", 2},
                      {"moe_intermediate_size", 20},
                      {"moe_shared_expert_intermediate_size", 24},
                      {"hybrid_override_pattern", "M-*E"}};

std::string refusal(const char* field, const json& value) {
  return test::refusal_of_field(kConfig, field, value);
}

TEST_CASE("every layer of Nemotron-H is one kind of part, given by a letter or by a name") {
  json config = kConfig;
  for (int way = 0; way < 3; ++way) {
    if (way == 1) config["layers_block_type"] = {"mamba", "mlp", "attention", "moe"};
    if (way == 2) config["layers_block_type"] = {"linear_attention", "mlp", "full_attention", "moe"};
    const ModelSpec spec = test::described(config);
    REQUIRE(spec.layers.size() == 4);
    CHECK(spec.layers[0].mamba()->channels() == 30 + 2 * 21);
    CHECK(spec.layers[0].mamba()->least_step == 0.001);
    CHECK(!spec.layers[0].mlp.exists());
    CHECK(!spec.layers[1].has_mixer());
    CHECK(spec.layers[1].mlp.size == 40);
    CHECK(!spec.layers[1].mlp.gated);
    CHECK(spec.layers[1].mlp.activation == Activation::kReluSquared);
    CHECK(spec.layers[2].attention()->head_size == 12);
    CHECK(!spec.layers[2].attention()->rope);
    CHECK(!spec.layers[2].mlp.exists());
    CHECK(!spec.layers[3].has_mixer());
    CHECK(spec.layers[3].mlp.experts->count == 8);
    CHECK(spec.layers[3].mlp.experts->shared_size == 24);
    CHECK(spec.layers[3].mlp.experts->correction_bias);
    CHECK(spec.norm.epsilon == 1e-5);
  }
}

TEST_CASE("Nemotron-H's head is a separate matrix for every configuration") {
  for (const bool tied : {false, true}) {
    CHECK(!test::described(test::with_field(kConfig, "tie_word_embeddings", tied)).tied_embeddings);
  }
}

TEST_CASE("Nemotron-H's fields are read by either of their names") {
  json config = kConfig;
  config.erase("n_groups");
  config.update({{"mamba_n_groups", 2}, {"mamba_d_conv", 3}, {"mamba_conv_bias", false}, {"mamba_dt_min", 0.5}});
  const ModelSpec spec = test::described(config);
  CHECK(spec.layers[0].mamba()->groups == 2);
  CHECK(spec.layers[0].mamba()->width == 3);
  CHECK(!spec.layers[0].mamba()->convolution_bias);
  CHECK(spec.layers[0].mamba()->least_step == 0.5);
}

TEST_CASE("Nemotron-H's settings that are not supported are refused by field") {
  CHECK(refusal("hybrid_override_pattern", "MX") ==
        "config.json: hybrid_override_pattern: 'X' is not a type of layer; supported: M, *, - and E");
  CHECK(refusal("hybrid_override_pattern", "") == "config.json: hybrid_override_pattern: names no layer");
  CHECK(refusal("hybrid_override_pattern", nullptr) == "config.json: hybrid_override_pattern: missing");
  CHECK(refusal("layers_block_type", {"mamba", "conv"}) ==
        "config.json: layers_block_type[1]: 'conv' is not supported; supported: mamba, attention, linear_attention, "
        "full_attention, mlp, moe");
  CHECK(refusal("moe_latent_size", 16) == "config.json: moe_latent_size: experts of a latent vector are not supported");
  CHECK(refusal("mlp_bias", true) == "config.json: mlp_bias: true is not supported with experts");
  CHECK(refusal("attention_bias", true) == "config.json: attention_bias: true is not supported");
  CHECK(refusal("n_groups", 4) == "config.json: n_groups: 4 groups do not divide the 6 heads");
  CHECK(refusal("n_group", 3) == "config.json: n_group: must divide the number of experts");
  CHECK(refusal("time_step_min", -1) == "config.json: time_step_min: must not be negative");
  CHECK(refusal("mamba_hidden_act", "gelu") ==
        "config.json: mamba_hidden_act: 'gelu' is not supported: the convolution's must be 'silu'");
}

}  // namespace ballast::model::nemotron_h_test
