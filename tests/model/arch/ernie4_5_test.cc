#include <doctest/doctest.h>

#include "described.h"
#include "layers.h"

namespace ballast::model {
namespace {

const nlohmann::json kConfig = {{"model_type", "ernie4_5"}, {"num_hidden_layers", 2},  {"hidden_size", 32},
                                {"num_attention_heads", 4}, {"intermediate_size", 40}, {"vocab_size", 10}};

TEST_CASE("ERNIE 4.5 has the defaults of its configuration class") {
  const ModelSpec spec = test::described(kConfig);
  CHECK(test::attention_of(spec).head_size == 128);
  CHECK(test::attention_of(spec).kv_heads == 2);
  CHECK(test::attention_of(spec).rope->theta == 500000.0);
  CHECK(spec.norm.epsilon == 1e-5);
  CHECK(spec.tied_embeddings);
  // null says what the sizes say.
  CHECK(test::attention_of(test::described(test::with_field(kConfig, "head_dim", nullptr))).head_size == 8);
}

TEST_CASE("ERNIE 4.5's biases are all there or none") {
  for (const bool flag : {false, true}) {
    const BiasSpec biases = test::described(test::with_field(kConfig, "use_bias", flag)).biases;
    for (const bool bias : {biases.query, biases.key, biases.value, biases.attention_output, biases.up, biases.down}) {
      CHECK(bias == flag);
    }
  }
}

}  // namespace
}  // namespace ballast::model
