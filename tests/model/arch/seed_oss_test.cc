#include <doctest/doctest.h>

#include "described.h"
#include "layers.h"

namespace ballast::model {
namespace {

TEST_CASE("Seed-OSS has biases of queries, keys and values unless it says otherwise") {
  const nlohmann::json config = {{"model_type", "seed_oss"}, {"num_hidden_layers", 2},   {"hidden_size", 32},
                                 {"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"head_dim", 12},
                                 {"intermediate_size", 40},  {"vocab_size", 10}};
  const ModelSpec spec = test::described(config);
  CHECK(spec.biases.query);
  CHECK(spec.biases.value);
  CHECK(!spec.biases.attention_output);
  CHECK(!spec.biases.up);
  CHECK(test::attention_of(spec).head_size == 12);
  CHECK(!test::described(test::with_field(config, "attention_bias", false)).biases.query);
  CHECK(test::described(test::with_field(config, "attention_out_bias", true)).biases.attention_output);
}

}  // namespace
}  // namespace ballast::model
