#include <doctest/doctest.h>

#include "described.h"
#include "layers.h"

namespace ballast::model::phi_test {

const nlohmann::json kConfig = {{"model_type", "phi"},      {"num_hidden_layers", 2},  {"hidden_size", 32},
                                {"num_attention_heads", 4}, {"intermediate_size", 40}, {"vocab_size", 10}};

TEST_CASE("Phi's block shares one LayerNorm between attention and a plain MLP, with biases everywhere") {
  const ModelSpec spec = test::described(kConfig);
  CHECK(spec.layout == BlockLayout::kParallelShared);
  CHECK(spec.norm.kind == NormSpec::Kind::kLayer);
  CHECK(spec.norm.bias);
  CHECK(!test::mlp_of(spec).gated);
  CHECK(test::mlp_of(spec).activation == Activation::kGeluTanh);
  CHECK(test::attention_of(spec).rope->rotary_size == 4);
  CHECK(test::attention_of(spec).kv_heads == 4);
  CHECK(spec.biases.query);
  CHECK(spec.biases.attention_output);
  CHECK(spec.biases.down);
  CHECK(spec.biases.head);
}

TEST_CASE("a Phi with norms over queries and keys is refused") {
  CHECK(test::refusal_of_field(kConfig, "qk_layernorm", true) == "config.json: qk_layernorm: true is not supported");
}

}  // namespace ballast::model::phi_test
