#include <doctest/doctest.h>

#include "described.h"
#include "layers.h"

namespace ballast::model::starcoder2_test {

using test::described;
using test::with_field;

const nlohmann::json kConfig = {{"model_type", "starcoder2"}, {"num_hidden_layers", 2},  {"hidden_size", 32},
                                {"num_attention_heads", 4},   {"intermediate_size", 40}, {"vocab_size", 10}};

TEST_CASE("StarCoder2 has LayerNorms, a plain MLP, biases and two key and value heads by default") {
  const ModelSpec spec = described(kConfig);
  CHECK(spec.layout == BlockLayout::kPreNorm);
  CHECK(spec.norm.kind == NormSpec::Kind::kLayer);
  CHECK(spec.norm.bias);
  CHECK(spec.norm.epsilon == 1e-5);
  CHECK(!test::mlp_of(spec).gated);
  CHECK(test::mlp_of(spec).activation == Activation::kGeluTanh);
  CHECK(test::attention_of(spec).kv_heads == 2);
  CHECK(spec.tied_embeddings);
  for (const bool bias : {spec.biases.query, spec.biases.attention_output, spec.biases.up, spec.biases.down}) {
    CHECK(bias);
  }
}

TEST_CASE("StarCoder2 has all biases or none") {
  const BiasSpec biases = described(with_field(kConfig, "use_bias", false)).biases;
  for (const bool bias : {biases.query, biases.key, biases.value, biases.attention_output, biases.up, biases.down}) {
    CHECK(!bias);
  }
}

TEST_CASE("StarCoder2's window applies to every layer, and by default there is no window") {
  CHECK(test::attention_of(described(kConfig)).window == 0);
  CHECK(described(with_field(kConfig, "sliding_window", 9)).layers[1].attention()->window == 9);
  CHECK(test::refusal_of_field(with_field(kConfig, "sliding_window", 9), "layer_types",
                               {"sliding_attention", "full_attention"}) ==
        test::Contains("layer_types[1]: 'full_attention' is not supported"));
}

}  // namespace ballast::model::starcoder2_test
