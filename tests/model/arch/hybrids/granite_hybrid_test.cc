#include <doctest/doctest.h>

#include <limits>

#include "described.h"

namespace ballast::model::granite_hybrid_test {

using nlohmann::json;

const json kConfig = {{"model_type", "granitemoehybrid"},
                      {"num_hidden_layers", 3},
                      {"hidden_size", 32},
                      {"num_attention_heads", 4},
                      {"num_key_value_heads", 2},
                      {"intermediate_size", 40},
                      {"vocab_size", 10},
                      {"num_local_experts", 0},
                      {"shared_intermediate_size", 24},
                      {"mamba_n_heads", 8},
                      {"mamba_n_groups", 2},
                      {"mamba_d_state", 5},
                      {"layer_types", {"mamba", "attention", "mamba"}}};

std::string refusal(const char* field, const json& value) {
  return test::refusal_of_field(kConfig, field, value);
}

ModelSpec with(const char* field, const json& value) {
  return test::described(test::with_field(kConfig, field, value));
}

TEST_CASE("Granite 4's layers are Mamba 2 or attention, by their older names or the newer ones") {
  json config = kConfig;
  for (const bool newer : {false, true}) {
    if (newer) config["layer_types"] = {"linear_attention", "full_attention", "linear_attention"};
    const ModelSpec spec = test::described(config);
    const auto& mamba = std::get<Mamba2Spec>(spec.layers[0].mixer);
    CHECK(mamba.heads == 8);
    CHECK(mamba.head_size == 8);  // the heads share twice the hidden size
    CHECK(mamba.groups == 2);
    CHECK(mamba.state_size == 5);
    CHECK(mamba.width == 4);
    CHECK(mamba.channels() == 64 + 2 * 10);
    CHECK(mamba.convolution_bias);
    CHECK(mamba.norm == Mamba2Spec::Norm::kAfterGate);
    CHECK(mamba.epsilon == 1e-6);
    CHECK(mamba.least_step == 0);
    CHECK(mamba.largest_step == std::numeric_limits<double>::infinity());
    CHECK(spec.layers[0].attention() == nullptr);
    CHECK(spec.layers[1].attention()->kv_heads == 2);
    CHECK(std::get<Mamba2Spec>(spec.layers[2].mixer) == mamba);
  }
  config.erase("layer_types");
  for (const LayerSpec& layer : test::described(config).layers) CHECK(layer.mamba() != nullptr);
}

TEST_CASE("Granite 4 rotates only if the configuration requires it, and has Granite 3's factors") {
  CHECK(!with("position_embedding_type", nullptr).layers[1].attention()->rope);
  CHECK(!with("position_embedding_type", "nope").layers[1].attention()->rope);
  CHECK(with("position_embedding_type", "rope").layers[1].attention()->rope->rotary_size == 8);
  CHECK(with("residual_multiplier", 0.22).residual_scale == 0.22);
  CHECK(with("logits_scaling", 8).logit_scale == 0.125);
  CHECK(with("attention_multiplier", 0.5).layers[1].attention()->scale == 0.5);
}

TEST_CASE("Granite 4 has an MLP, with or without experts") {
  CHECK(with("num_local_experts", 0).layers[0].mlp.size == 24);
  json config = test::with_field(kConfig, "num_local_experts", 6);
  config["num_experts_per_tok"] = 2;
  const MlpSpec mlp = test::described(config).layers[0].mlp;
  CHECK(mlp.experts->count == 6);
  CHECK(mlp.experts->size == 40);
  CHECK(mlp.experts->shared_size == 24);
  CHECK(!mlp.experts->shared_router);
  CHECK(mlp.experts->normalize);
}

TEST_CASE("Granite 4's projections have a bias, and its steps have bounds, if the configuration says so") {
  const ModelSpec spec = with("mamba_proj_bias", true);
  CHECK(spec.biases.mixer_input);
  CHECK(spec.biases.mixer_output);
  CHECK(!spec.biases.query);
  CHECK(!std::get<Mamba2Spec>(with("mamba_conv_bias", false).layers[0].mixer).convolution_bias);
  const ModelSpec bounded = with("time_step_limit", {0.01, {{"__float__", "Infinity"}}});
  CHECK(bounded.layers[0].mamba()->least_step == 0.01);
  CHECK(bounded.layers[0].mamba()->largest_step == std::numeric_limits<double>::infinity());
  CHECK(with("time_step_limit", {0.01, 0.2}).layers[0].mamba()->largest_step == 0.2);
}

TEST_CASE("Granite 4's settings that are not supported are refused by field") {
  CHECK(refusal("mamba_n_heads", 7) == "config.json: mamba_n_heads: does not divide the 64 channels of the heads");
  CHECK(refusal("mamba_d_head", 16) == "config.json: mamba_d_head: must be 8, the heads have 64 channels together");
  CHECK(refusal("mamba_d_head", "auto") == "no error");
  CHECK(refusal("mamba_n_groups", 3) == "config.json: mamba_n_groups: 3 groups do not divide the 8 heads");
  CHECK(refusal("time_step_limit", {0.5, 0.1}) ==
        "config.json: time_step_limit[1]: must not be less than the bound before it");
  CHECK(refusal("time_step_limit", {-1, 1}) == "config.json: time_step_limit[0]: must not be negative");
  CHECK(refusal("hidden_act", "gelu") ==
        "config.json: hidden_act: 'gelu' is not supported: the convolution's must be 'silu'");
  CHECK(refusal("position_embedding_type", "alibi") ==
        "config.json: position_embedding_type: 'alibi' is not supported; supported: rope, nope");
  CHECK(refusal("layer_types", {"mamba", "moe", "mamba"}) ==
        "config.json: layer_types[1]: 'moe' is not supported; supported: mamba, attention, linear_attention, "
        "full_attention");
}

}  // namespace ballast::model::granite_hybrid_test
