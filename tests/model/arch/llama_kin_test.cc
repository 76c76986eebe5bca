#include <doctest/doctest.h>

#include "described.h"
#include "layers.h"

namespace ballast::model::llama_kin_test {

nlohmann::json config_of(const char* model_type) {
  return {{"model_type", model_type}, {"num_hidden_layers", 2}, {"hidden_size", 32},       {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"head_dim", 12},         {"intermediate_size", 40}, {"vocab_size", 10}};
}

TEST_CASE("Seed-OSS has biases of queries, keys and values by default") {
  const nlohmann::json config = config_of("seed_oss");
  const ModelSpec spec = test::described(config);
  CHECK(spec.biases.query);
  CHECK(spec.biases.value);
  CHECK(!spec.biases.attention_output);
  CHECK(!spec.biases.up);
  CHECK(test::attention_of(spec).head_size == 12);
  CHECK(!test::described(test::with_field(config, "attention_bias", false)).biases.query);
  CHECK(test::described(test::with_field(config, "attention_out_bias", true)).biases.attention_output);
}

TEST_CASE("Arcee has a squared ReLU without a gate") {
  const ModelSpec spec = test::described(config_of("arcee"));
  const MlpSpec& mlp = test::mlp_of(spec);
  CHECK(!mlp.gated);
  CHECK(mlp.activation == Activation::kReluSquared);
}

TEST_CASE("Helium has no bias after attention, even if other linears have biases") {
  const ModelSpec spec = test::described(test::with_field(config_of("helium"), "attention_bias", true));
  CHECK(spec.biases.query);
  CHECK(!spec.biases.attention_output);
  CHECK(test::attention_of(spec).rope->theta == 100000.0);
  CHECK(spec.norm.epsilon == 1e-8);
}

TEST_CASE("Nemotron stores the gains of its LayerNorms minus one and rotates half of each head") {
  const ModelSpec spec = test::described(config_of("nemotron"));
  CHECK(spec.norm.kind == NormSpec::Kind::kLayer);
  CHECK(spec.norm.bias);
  CHECK(spec.norm.gain_offset == 1.0);
  CHECK(test::attention_of(spec).rope->rotary_size == 6);
  CHECK(!test::mlp_of(spec).gated);
  CHECK(test::mlp_of(spec).activation == Activation::kReluSquared);
}

TEST_CASE("Jais 2 has LayerNorms with unshifted gains, and biases by default") {
  const ModelSpec spec = test::described(config_of("jais2"));
  CHECK(spec.norm.kind == NormSpec::Kind::kLayer);
  CHECK(spec.norm.bias);
  CHECK(spec.norm.gain_offset == 0.0);
  CHECK(test::attention_of(spec).rope->rotary_size == 12);
  CHECK(spec.biases.attention_output);
  CHECK(spec.biases.down);
  CHECK(!test::mlp_of(spec).gated);
  CHECK(test::mlp_of(spec).activation == Activation::kReluSquared);
  CHECK(!test::described(test::with_field(config_of("jais2"), "attention_bias", false)).biases.query);
}

TEST_CASE("CWM has a window in all layers but every fourth, from the first one on") {
  nlohmann::json config = config_of("cwm");
  config["num_hidden_layers"] = 5;
  CHECK(test::refusal_of_field(config, "rope_parameters", nullptr) == "config.json: rope_parameters: missing");
  config["rope_parameters"] = {{"rope_type", "default"}};
  const ModelSpec spec = test::described(config);
  for (std::size_t layer = 0; layer < 5; ++layer) {
    CHECK(spec.layers[layer].attention()->window == (layer % 4 == 0 ? 0 : 8192));
    CHECK(spec.layers[layer].attention()->rope->theta == 1e6);
  }
  config["layer_types"] = {"sliding_attention", "full_attention", "full_attention", "full_attention", "full_attention"};
  config["sliding_window"] = 7;
  CHECK(test::described(config).layers[0].attention()->window == 7);
  CHECK(test::described(config).layers[1].attention()->window == 0);
}

TEST_CASE("InternLM 3 names its biases in two ways, and stretches no text within its context") {
  nlohmann::json config = config_of("internlm3");
  config["rope_scaling"] = {{"rope_type", "dynamic"}, {"factor", 6.0}};
  CHECK(test::attention_of(test::described(config)).rope->scaling == RopeSpec::Scaling::kNone);
  CHECK(!test::described(config).biases.query);
  CHECK(test::described(test::with_field(config, "attention_bias", true)).biases.attention_output);
  const BiasSpec biases = test::described(test::with_field(config, "qkv_bias", true)).biases;
  CHECK(biases.key);
  CHECK(!biases.attention_output);
  CHECK(test::described(test::with_field(config, "bias", true)).biases.down);
}

TEST_CASE("IQuest-Coder is a Llama, and its additional settings are refused") {
  const nlohmann::json config = config_of("iquestcoder");
  CHECK(test::attention_of(test::described(config)).head_size == 12);
  CHECK(test::refusal_of_field(config, "clip_qkv", 8.0) == "config.json: clip_qkv: is not supported");
  CHECK(test::refusal_of_field(config, "use_sliding_window", true) ==
        "config.json: use_sliding_window: true is not supported");
}

}  // namespace ballast::model::llama_kin_test
