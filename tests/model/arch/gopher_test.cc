#include <doctest/doctest.h>

#include "family_model.h"
#include "layers.h"

namespace ballast::model::gopher_test {

const nlohmann::json kConfig = {{"model_type", "gopher"},   {"num_hidden_layers", 2},       {"hidden_size", 24},
                                {"num_attention_heads", 4}, {"intermediate_size", 40},      {"vocab_size", 10},
                                {"num_key_value_heads", 2}, {"max_position_embeddings", 32}};

TEST_CASE("Gopher's block has input RMSNorms, a plain MLP and biases on every linear") {
  const ModelSpec spec = test::described(kConfig);
  CHECK(spec.layout == BlockLayout::kPreNorm);
  CHECK(spec.norm.kind == NormSpec::Kind::kRms);
  CHECK(!test::mlp_of(spec).gated);
  CHECK(test::mlp_of(spec).activation == Activation::kGelu);
  for (const bool bias : {spec.biases.query, spec.biases.key, spec.biases.value, spec.biases.attention_output,
                          spec.biases.up, spec.biases.down}) {
    CHECK(bias);
  }
  CHECK(!spec.biases.head);
}

TEST_CASE("a Gopher's logits are those of the reference") {
  for (const char* activation : {"gelu", "relu", "gelu_new"}) {
    const nlohmann::json config = test::with_field(kConfig, "hidden_act", activation);
    const ModelSpec spec = test::described(config);
    const test::RoleTensors tensors = test::random_tensors(spec, 2);
    CHECK(test::family_error(test::named_model(config, tensors), spec, tensors) <= 1e-4);
  }
}

}  // namespace ballast::model::gopher_test
