#include <doctest/doctest.h>

#include "family_model.h"
#include "layers.h"

namespace ballast::model::palm_test {

const nlohmann::json kConfig = {
    {"model_type", "palm"},    {"num_hidden_layers", 2}, {"hidden_size", 24}, {"num_attention_heads", 4},
    {"intermediate_size", 40}, {"vocab_size", 10},       {"head_dim", 8},     {"max_position_embeddings", 32}};

TEST_CASE("PaLM's block has one norm for attention and MLP, one key and value head, a gated MLP and no biases") {
  const ModelSpec spec = test::described(kConfig);
  CHECK(spec.layout == BlockLayout::kParallelShared);
  CHECK(spec.norm.kind == NormSpec::Kind::kLayer);
  CHECK(!spec.norm.bias);
  CHECK(test::attention_of(spec).kv_heads == 1);
  CHECK(test::mlp_of(spec).gated);
  CHECK(test::mlp_of(spec).activation == Activation::kSilu);
  CHECK(spec.tied_embeddings);
  CHECK(!spec.biases.query);
  CHECK(!spec.biases.down);
}

TEST_CASE("a PaLM's logits are those of the reference") {
  for (const bool tied : {true, false}) {
    const nlohmann::json config = test::with_field(kConfig, "tie_word_embeddings", tied);
    const ModelSpec spec = test::described(config);
    const test::RoleTensors tensors = test::random_tensors(spec, 1);
    CHECK(test::family_error(test::named_model(config, tensors), spec, tensors) <= 1e-4);
  }
}

TEST_CASE("a PaLM with several key and value heads is refused") {
  CHECK(test::refusal_of_field(kConfig, "num_key_value_heads", 2) == "config.json: num_key_value_heads: must be 1");
  CHECK(test::refusal_of_field(kConfig, "num_key_value_heads", 1) == "no error");
}

}  // namespace ballast::model::palm_test
