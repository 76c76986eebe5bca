#include <doctest/doctest.h>

#include "described.h"
#include "layers.h"

namespace ballast::model {
namespace {

using nlohmann::json;

const json kConfig = {{"model_type", "qwen3_next"}, {"num_hidden_layers", 2},
                      {"hidden_size", 32},          {"num_attention_heads", 4},
                      {"num_key_value_heads", 2},   {"head_dim", 16},
                      {"intermediate_size", 40},    {"vocab_size", 10},
                      {"num_experts", 0},           {"layer_types", {"full_attention", "full_attention"}}};

std::string refusal(const char* field, const json& value) {
  return test::refusal_of_field(kConfig, field, value);
}

TEST_CASE("Qwen3-Next's full attention has a gate per element, norms over heads and a quarter of them rotated") {
  const ModelSpec spec = test::described(kConfig);
  CHECK(test::attention_of(spec).output_gate);
  CHECK(test::attention_of(spec).query_key_norm);
  CHECK(test::attention_of(spec).rope->rotary_size == 4);
  CHECK(spec.norm.gain_offset == 1.0);
  CHECK(test::mlp_of(spec).gated);
  CHECK(!test::mlp_of(spec).experts);
}

TEST_CASE("a layer of linear attention is refused by type and place") {
  CHECK(refusal("layer_types", {"full_attention", "linear_attention"}) ==
        "config.json: layer_types[1]: 'linear_attention' is not supported; supported: full_attention");
  CHECK(refusal("layer_types", nullptr) == test::Contains("config.json: layer_types: missing: three of four layers are "
                                                          "'linear_attention' then"));
  CHECK(refusal("layer_types", "full_attention") == "config.json: layer_types: must be a list, is \"full_attention\"");
  CHECK(refusal("layer_types", {"full_attention", 7}) == test::Contains("layer_types[1]: must be a string, is 7"));
}

TEST_CASE("Qwen3-Next's experts are refused by layer") {
  CHECK(refusal("num_experts", 4) ==
        "config.json: mlp_only_layers: layer 0 has experts, which are not supported for this architecture");
  CHECK(test::refusal_of_field(test::with_field(kConfig, "num_experts", 4), "mlp_only_layers", {0}) ==
        test::Contains("layer 1 has experts"));
  CHECK(test::refusal_of_field(test::with_field(kConfig, "num_experts", 4), "mlp_only_layers", {0, 1}) == "no error");
  CHECK(test::refusal_of_field(test::with_field(kConfig, "num_experts", 4), "decoder_sparse_step", 2) ==
        test::Contains("layer 1 has experts"));
}

}  // namespace
}  // namespace ballast::model
