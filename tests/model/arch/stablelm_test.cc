#include <doctest/doctest.h>

#include "described.h"
#include "layers.h"

namespace ballast::model {
namespace {

using test::described;
using test::with_field;

const nlohmann::json kConfig = {{"model_type", "stablelm"},  {"num_hidden_layers", 2},  {"hidden_size", 512},
                                {"num_attention_heads", 32}, {"intermediate_size", 40}, {"vocab_size", 10}};

TEST_CASE("StableLM has LayerNorms with biases and rotates a quarter of each head") {
  const ModelSpec spec = described(kConfig);
  CHECK(spec.layout == BlockLayout::kPreNorm);
  CHECK(spec.norm.kind == NormSpec::Kind::kLayer);
  CHECK(spec.norm.bias);
  CHECK(test::mlp_of(spec).gated);
  CHECK(test::attention_of(spec).kv_heads == 32);
  CHECK(test::attention_of(spec).rope->rotary_size == 4);
  CHECK(!spec.biases.query);
  const BiasSpec biases = described(with_field(kConfig, "use_qkv_bias", true)).biases;
  CHECK(biases.key);
  CHECK(!biases.attention_output);
}

TEST_CASE("a StableLM with a parallel residual has one norm for both halves") {
  CHECK(described(with_field(kConfig, "use_parallel_residual", true)).layout == BlockLayout::kParallelShared);
}

TEST_CASE("a StableLM with norms over queries and keys is refused") {
  CHECK(test::refusal_of_field(kConfig, "qk_layernorm", true) == "config.json: qk_layernorm: true is not supported");
}

}  // namespace
}  // namespace ballast::model
