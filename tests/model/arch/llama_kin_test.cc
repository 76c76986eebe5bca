#include <doctest/doctest.h>

#include "described.h"
#include "layers.h"

namespace ballast::model {
namespace {

nlohmann::json config_of(const char* model_type) {
  return {{"model_type", model_type}, {"num_hidden_layers", 2}, {"hidden_size", 32},       {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"head_dim", 12},         {"intermediate_size", 40}, {"vocab_size", 10}};
}

TEST_CASE("Seed-OSS has biases of queries, keys and values unless it says otherwise") {
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

TEST_CASE("Helium has no bias after attention, whatever the others have") {
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

}  // namespace
}  // namespace ballast::model
