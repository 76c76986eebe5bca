#include <doctest/doctest.h>

#include <algorithm>

#include "described.h"

namespace ballast::model::falcon_h1_test {

using nlohmann::json;

const json kConfig = {{"model_type", "falcon_h1"}, {"num_hidden_layers", 2},   {"hidden_size", 32},
                      {"num_attention_heads", 4},  {"num_key_value_heads", 2}, {"intermediate_size", 40},
                      {"vocab_size", 10},          {"mamba_d_ssm", 48},        {"mamba_n_heads", 6},
                      {"mamba_d_state", 5},        {"mamba_n_groups", 3}};

const Mamba2Spec& mamba_with(const char* field, const json& value, ModelSpec& spec) {
  spec = test::described(test::with_field(kConfig, field, value));
  return *spec.layers[1].mamba();
}

TEST_CASE("Falcon-H1's layers have attention and Mamba 2 in parallel") {
  const ModelSpec spec = test::described(kConfig);
  for (const LayerSpec& layer : spec.layers) {
    const auto& both = std::get<ParallelMixersSpec>(layer.mixer);
    CHECK(layer.attention() == &both.attention);
    CHECK(layer.mamba() == &both.mamba);
    CHECK(both.attention.heads == 4);
    CHECK(both.attention.rope->rotary_size == 8);
    CHECK(both.mamba.head_size == 8);
    CHECK(both.mamba.channels() == 48 + 2 * 15);
    CHECK(both.mamba.convolution_bias);
    CHECK(layer.mlp.size == 40);
  }
  CHECK(spec.norm.epsilon == 1e-5);
  CHECK(!spec.tied_embeddings);
}

TEST_CASE("Falcon-H1's Mamba 2 has no norm, or one before the gate or after it") {
  ModelSpec spec;
  CHECK(mamba_with("mamba_rms_norm", nullptr, spec).norm == Mamba2Spec::Norm::kNone);
  CHECK(mamba_with("mamba_rms_norm", true, spec).norm == Mamba2Spec::Norm::kBeforeGate);
  json config = test::with_field(kConfig, "mamba_rms_norm", true);
  config["mamba_norm_before_gate"] = false;
  CHECK(test::described(config).layers[0].mamba()->norm == Mamba2Spec::Norm::kAfterGate);
}

TEST_CASE("Falcon-H1's Mamba 2 has the configured channels, or twice the hidden size if the field is null") {
  json config = kConfig;
  config["mamba_d_ssm"] = nullptr;
  config["mamba_n_heads"] = 8;
  config["mamba_n_groups"] = 2;
  CHECK(test::described(config).layers[0].mamba()->value_channels() == 64);
}

TEST_CASE("Falcon-H1's factors are those of the matrices that it stores") {
  json config = kConfig;
  config.update({{"attention_in_multiplier", 2.0},
                 {"attention_out_multiplier", 0.5},
                 {"key_multiplier", 0.25},
                 {"ssm_in_multiplier", 3.0},
                 {"ssm_out_multiplier", 0.125},
                 {"ssm_multipliers", {1.0, 2.0, 3.0, 4.0, 5.0}},
                 {"mlp_multipliers", {6.0, 7.0}},
                 {"embedding_multiplier", 5.5},
                 {"lm_head_multiplier", 0.75}});
  const ModelSpec spec = test::described(config);
  CHECK(spec.embedding_scale == 5.5);
  CHECK(spec.logit_scale == 0.75);
  const auto factors = architecture_for_model_type("falcon_h1", "").stored_factors(files::JsonReader(config, ""));
  const auto check = [&](Role role, double weights, double bias) {
    const auto factor = std::ranges::find(factors, role, &StoredFactor::role);
    REQUIRE(factor != factors.end());
    CHECK(factor->weights == weights);
    CHECK(factor->bias == bias);
  };
  check(Role::kQuery, 2.0, 1.0);
  check(Role::kKey, 0.5, 0.25);
  check(Role::kAttentionOutput, 0.5, 0.5);
  check(Role::kMambaGate, 3.0, 1.0);
  check(Role::kMambaValue, 6.0, 2.0);
  check(Role::kMambaStep, 15.0, 5.0);
  check(Role::kMambaOutput, 0.125, 0.125);
  check(Role::kGate, 6.0, 6.0);
  check(Role::kDown, 7.0, 7.0);
  CHECK(std::ranges::find(factors, Role::kUp, &StoredFactor::role) == factors.end());
}

TEST_CASE("each of Falcon-H1's biases has its own flag") {
  const auto biases_with = [](const char* field) {
    return test::described(test::with_field(kConfig, field, true)).biases;
  };
  CHECK(biases_with("mamba_proj_bias").mixer_input);
  CHECK(!biases_with("mamba_proj_bias").mixer_output);
  CHECK(biases_with("projectors_bias").mixer_output);
  CHECK(biases_with("attention_bias").attention_output);
  CHECK(biases_with("mlp_bias").down);
}

TEST_CASE("Falcon-H1's settings that are not supported are refused by field") {
  CHECK(test::refusal_of_field(kConfig, "ssm_multipliers", {1.0, 2.0}) == "no error");
  const auto factors_with = [](const char* field, const json& value) {
    return test::error_message([&] {
      const json config = test::with_field(kConfig, field, value);
      architecture_for_model_type("falcon_h1", "").stored_factors(files::JsonReader(config, "config.json"));
    });
  };
  CHECK(factors_with("ssm_multipliers", {1.0, 2.0}) == "config.json: ssm_multipliers: must have 5 elements, has 2");
  CHECK(factors_with("mlp_multipliers", {1.0, "x"}) == "config.json: mlp_multipliers[1]: must be a number, is \"x\"");
  CHECK(test::refusal_of_field(kConfig, "hidden_act", "gelu") ==
        "config.json: hidden_act: 'gelu' is not supported: the convolution's must be 'silu'");
}

}  // namespace ballast::model::falcon_h1_test
