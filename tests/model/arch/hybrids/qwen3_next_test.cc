#include <doctest/doctest.h>

#include "described.h"
#include "layers.h"

namespace ballast::model::qwen3_next_test {

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
  CHECK(!test::attention_of(spec).head_gates);
  CHECK(test::described(test::with_field(kConfig, "attention_bias", true)).biases.output_gate);
  CHECK(test::attention_of(spec).query_key_norm);
  CHECK(test::attention_of(spec).rope->rotary_size == 4);
  CHECK(spec.norm.gain_offset == 1.0);
  CHECK(test::mlp_of(spec).gated);
  CHECK(!test::mlp_of(spec).experts);
}

TEST_CASE("layers of linear attention are gated delta nets, three of four unless the types are given") {
  const json types = {"linear_attention", "full_attention"};
  const ModelSpec spec = test::described(test::with_field(kConfig, "layer_types", types));
  const auto& delta = std::get<GatedDeltaSpec>(spec.layers[0].mixer);
  CHECK(delta.key_heads == 16);
  CHECK(delta.value_heads == 32);
  CHECK(delta.key_size == 128);
  CHECK(delta.value_size == 128);
  CHECK(delta.width == 4);
  CHECK(delta.channels() == 8192);
  CHECK(spec.layers[0].attention() == nullptr);
  CHECK(spec.layers[1].attention() != nullptr);
  json config = test::with_field(kConfig, "num_hidden_layers", 8);
  config.erase("layer_types");
  const ModelSpec eight = test::described(config);
  for (std::size_t layer = 0; layer < 8; ++layer) {
    CHECK((eight.layers[layer].attention() != nullptr) == (layer == 3 || layer == 7));
  }
}

TEST_CASE("invalid layer types of Qwen3-Next are refused by type and position") {
  CHECK(refusal("layer_types", {"full_attention", "sparse_attention"}) ==
        "config.json: layer_types[1]: 'sparse_attention' is not supported; supported: full_attention, "
        "linear_attention");
  CHECK(refusal("layer_types", "full_attention") == "config.json: layer_types: must be a list, is \"full_attention\"");
  CHECK(refusal("layer_types", {"full_attention", 7}) == test::Contains("layer_types[1]: must be a string, is 7"));
  CHECK(refusal("linear_num_value_heads", 24) ==
        "config.json: linear_num_value_heads: must be a multiple of linear_num_key_heads");
  CHECK(refusal("hidden_act", "gelu") == "config.json: hidden_act: must be 'silu'");
  CHECK(refusal("attn_output_gate", false) == "config.json: attn_output_gate: false is not supported");
}

TEST_CASE("Qwen3.5 is described like Qwen3-Next, alone or as the text model of a multimodal one") {
  json config = test::with_field(kConfig, "model_type", "qwen3_5_text");
  CHECK(!test::described(config).layers[0].mlp.experts);
  const json whole = {{"model_type", "qwen3_5"}, {"text_config", config}};
  CHECK(test::described(whole).layers == test::described(config).layers);
  config["model_type"] = "qwen3_5_moe_text";
  config.update({{"num_experts", 6}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 12}});
  config.erase("intermediate_size");
  const ModelSpec mixture = test::described({{"model_type", "qwen3_5_moe"}, {"text_config", config}});
  CHECK(mixture.layers[0].mlp.experts->count == 6);
  CHECK(mixture.layers[0].mlp.experts->normalize);
  CHECK(mixture.layers[0].mlp.experts->shared_router);
}

json with_experts() {
  json config = kConfig;
  config.update({{"num_experts", 6}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 12}});
  return config;
}

TEST_CASE("Qwen3-Next has routed experts and a shared expert, which its router weighs") {
  const ExpertSpec experts = *test::described(with_experts()).layers[1].mlp.experts;
  CHECK(experts.count == 6);
  CHECK(experts.per_token == 2);
  CHECK(experts.size == 12);
  CHECK(experts.shared_size == 512);
  CHECK(experts.shared_router);
  CHECK(experts.normalize);
  CHECK(test::described(test::with_field(with_experts(), "mlp_only_layers", {0})).layers[1].mlp.experts);
  CHECK(!test::described(test::with_field(with_experts(), "mlp_only_layers", {0})).layers[0].mlp.experts);
  CHECK(!test::described(test::with_field(with_experts(), "decoder_sparse_step", 2)).layers[0].mlp.experts);
}

TEST_CASE("invalid settings of Qwen3-Next's experts are refused") {
  CHECK(test::refusal_of_field(with_experts(), "num_experts_per_tok", 7) ==
        "config.json: num_experts_per_tok: is more than the number of experts");
  CHECK(test::refusal_of_field(with_experts(), "num_experts", 70000) ==
        "config.json: num_experts: must be at most 65536");
  CHECK(test::refusal_of_field(with_experts(), "moe_intermediate_size", nullptr) ==
        "config.json: moe_intermediate_size: missing");
}

}  // namespace ballast::model::qwen3_next_test
