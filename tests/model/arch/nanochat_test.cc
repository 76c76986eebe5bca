#include <doctest/doctest.h>

#include "described.h"
#include "layers.h"

namespace ballast::model::nanochat_test {

const nlohmann::json kConfig = {{"model_type", "nanochat"}, {"num_hidden_layers", 2},  {"hidden_size", 32},
                                {"num_attention_heads", 4}, {"intermediate_size", 40}, {"vocab_size", 10}};

TEST_CASE("nanochat's norms have no gains, and its heads are rotated backwards before their norm") {
  const ModelSpec spec = test::described(kConfig);
  CHECK(!spec.norm.gain);
  CHECK(spec.embedding_norm);
  CHECK(test::attention_of(spec).query_key_norm);
  CHECK(test::attention_of(spec).query_key_norm->after_rotation);
  CHECK(test::attention_of(spec).rope->backwards);
  CHECK(!test::mlp_of(spec).gated);
  CHECK(test::mlp_of(spec).activation == Activation::kReluSquared);
  CHECK(spec.logit_cap == 15.0);
  CHECK(test::described(test::with_field(kConfig, "final_logit_softcapping", nullptr)).logit_cap == 0.0);
}

}  // namespace ballast::model::nanochat_test
