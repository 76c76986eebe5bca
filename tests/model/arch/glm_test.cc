#include <doctest/doctest.h>

#include <cmath>

#include "described.h"
#include "layers.h"

namespace ballast::model::glm_test {

using test::described;
using test::with_field;

nlohmann::json config_of(const char* model_type) {
  return {{"model_type", model_type}, {"num_hidden_layers", 2},  {"hidden_size", 32},
          {"num_attention_heads", 4}, {"intermediate_size", 40}, {"vocab_size", 10}};
}

TEST_CASE("GLM rotates half of each head, with biases on queries, keys and values") {
  for (const char* type : {"glm", "glm4"}) {
    CAPTURE(type);
    const ModelSpec spec = described(config_of(type));
    const AttentionSpec& attention = test::attention_of(spec);
    CHECK(spec.layout == BlockLayout::kPreNorm);
    CHECK(spec.norm.epsilon == 1.5625e-7);
    CHECK(attention.head_size == 128);
    CHECK(attention.scale == doctest::Approx(1 / std::sqrt(128.0)));
    CHECK(attention.kv_heads == 2);
    CHECK(attention.rope->rotary_size == 64);
    CHECK(spec.biases.key);
    CHECK(!spec.biases.attention_output);
    CHECK(!spec.biases.up);
    CHECK(!spec.tied_embeddings);
    CHECK(!described(with_field(config_of(type), "attention_bias", false)).biases.query);
    CHECK(described(with_field(config_of(type), "partial_rotary_factor", 0.25))
              .layers[0]
              .attention()
              ->rope->rotary_size == 32);
  }
}

TEST_CASE("only glm4 has output norms of attention and MLP") {
  CHECK(!described(config_of("glm")).post_norms);
  CHECK(described(config_of("glm4")).post_norms);
}

}  // namespace ballast::model::glm_test
