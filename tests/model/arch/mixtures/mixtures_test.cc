#include <doctest/doctest.h>

#include "described.h"
#include "layers.h"

namespace ballast::model::mixtures_test {

using nlohmann::json;

json config_of(const char* model_type) {
  return {{"model_type", model_type},  {"num_hidden_layers", 3},   {"hidden_size", 32},
          {"num_attention_heads", 4},  {"num_key_value_heads", 2}, {"head_dim", 12},
          {"intermediate_size", 40},   {"vocab_size", 10},         {"num_experts_per_tok", 2},
          {"moe_intermediate_size", 8}};
}

TEST_CASE("Qwen3's mixtures have experts in all layers but those that are named") {
  const json config = test::with_field(config_of("qwen3_moe"), "num_experts", 4);
  const ModelSpec spec = test::described(test::with_field(config, "mlp_only_layers", {1}));
  CHECK(test::attention_of(spec).query_key_norm);
  CHECK(spec.layers[0].mlp.experts->count == 4);
  CHECK(spec.layers[0].mlp.experts->size == 8);
  CHECK(!spec.layers[0].mlp.experts->normalize);
  CHECK(!spec.layers[0].mlp.experts->shared_router);
  CHECK(!spec.layers[1].mlp.experts);
  CHECK(spec.layers[1].mlp.size == 40);
  CHECK(test::described(test::with_field(config, "norm_topk_prob", true)).layers[0].mlp.experts->normalize);
  for (const char* field : {"num_experts", "num_experts_per_tok", "moe_intermediate_size", "head_dim"}) {
    CHECK(test::refusal_of_field(config, field, nullptr) == "config.json: " + std::string(field) + ": missing");
  }
}

TEST_CASE("Mixtral has experts of the MLP's size in every layer, and no window by default") {
  const json config = test::with_field(config_of("mixtral"), "num_local_experts", 4);
  const ModelSpec spec = test::described(config);
  for (const LayerSpec& layer : spec.layers) {
    CHECK(layer.mlp.experts->size == 40);
    CHECK(layer.mlp.experts->normalize);
    CHECK(layer.attention()->window == 0);
  }
  CHECK(spec.norm.epsilon == 1e-5);
  CHECK(test::attention_of(test::described(test::with_field(config, "sliding_window", 5))).window == 5);
}

TEST_CASE("Qwen3's mixtures name the number of experts as transformers 5 or as it did before") {
  const json config = test::with_field(config_of("qwen3_moe"), "num_local_experts", 6);
  CHECK(test::described(config).layers[0].mlp.experts->count == 6);
}

TEST_CASE("Qwen2's mixtures have biases and a shared MLP with a gate per token") {
  const json config = test::with_field(config_of("qwen2_moe"), "num_experts", 4);
  const ModelSpec spec = test::described(test::with_field(config, "shared_expert_intermediate_size", 20));
  CHECK(spec.biases.query);
  CHECK(!spec.biases.attention_output);
  CHECK(!test::attention_of(spec).query_key_norm);
  CHECK(spec.layers[2].mlp.experts->shared_size == 20);
  CHECK(spec.layers[2].mlp.experts->shared_router);
  CHECK(test::refusal_of_field(config, "use_sliding_window", true) ==
        "config.json: use_sliding_window: true is not supported");
}

TEST_CASE("GLM-4.5 has DeepSeek V3's experts and heads of which a half rotates") {
  json config = config_of("glm4_moe");
  config.update({{"n_routed_experts", 6},
                 {"n_shared_experts", 2},
                 {"n_group", 3},
                 {"topk_group", 2},
                 {"first_k_dense_replace", 1},
                 {"routed_scaling_factor", 1.5}});
  const ModelSpec spec = test::described(config);
  CHECK(test::attention_of(spec).rope->rotary_size == 6);
  CHECK(!test::attention_of(spec).query_key_norm);
  CHECK(!spec.layers[0].mlp.experts);
  const ExpertSpec& experts = *spec.layers[1].mlp.experts;
  CHECK(experts.scoring == ExpertSpec::Scoring::kSigmoid);
  CHECK(experts.correction_bias);
  CHECK(experts.normalize);
  CHECK(experts.scale == 1.5);
  CHECK(experts.shared_size == 16);
  CHECK(test::attention_of(test::described(test::with_field(config, "use_qk_norm", true))).query_key_norm);
}

TEST_CASE("dots.llm1 has DeepSeek V3's experts, heads with norms, and windows in its last layers") {
  json config = config_of("dots1");
  config.update({{"n_routed_experts", 6},
                 {"n_shared_experts", 2},
                 {"first_k_dense_replace", 1},
                 {"max_window_layers", 2},
                 {"sliding_window", 9}});
  const ModelSpec spec = test::described(config);
  CHECK(test::attention_of(spec).query_key_norm);
  CHECK(test::attention_of(spec).rope->rotary_size == 12);
  CHECK(spec.layers[1].attention()->window == 0);
  CHECK(spec.layers[2].attention()->window == 9);
  CHECK(!spec.layers[0].mlp.experts);
  const ExpertSpec& experts = *spec.layers[1].mlp.experts;
  CHECK(experts.scoring == ExpertSpec::Scoring::kSigmoid);
  CHECK(experts.shared_size == 16);
  CHECK(!experts.normalize);
  CHECK(test::described(test::with_field(config, "norm_topk_prob", true)).layers[1].mlp.experts->normalize);
  CHECK(test::described(test::with_field(config, "sliding_window", nullptr)).layers[2].attention()->window == 0);
  CHECK(test::refusal_of_field(config, "n_shared_experts", nullptr) == "config.json: n_shared_experts: missing");
}

TEST_CASE("Solar Open has DeepSeek V3's experts in every layer, and plain heads") {
  json config = config_of("solar_open");
  config["n_routed_experts"] = 6;
  config.erase("intermediate_size");
  const ModelSpec spec = test::described(config);
  CHECK(!test::attention_of(spec).query_key_norm);
  CHECK(test::attention_of(spec).rope->theta == 1e6);
  for (const LayerSpec& layer : spec.layers) {
    CHECK(layer.mlp.experts->correction_bias);
    CHECK(layer.mlp.experts->normalize);
    CHECK(layer.mlp.experts->shared_size == 8);
  }
  CHECK(!test::described(test::with_field(config, "attention_bias", true)).biases.attention_output);
}

TEST_CASE("MiniMax-M2 has norms over all heads, of which a part rotates, and corrected sigmoids") {
  json config = config_of("minimax_m2");
  config.update({{"num_local_experts", 4}, {"rotary_dim", 6}});
  const ModelSpec spec = test::described(config);
  CHECK(test::attention_of(spec).query_key_norm->kind == HeadNormSpec::Kind::kRmsAllHeads);
  CHECK(test::attention_of(spec).rope->rotary_size == 6);
  CHECK(test::attention_of(spec).rope->theta == 5e6);
  CHECK(spec.layers[2].mlp.experts->size == 40);
  CHECK(spec.layers[2].mlp.experts->scoring == ExpertSpec::Scoring::kSigmoid);
  CHECK(spec.layers[2].mlp.experts->correction_bias);
  CHECK(test::refusal_of_field(config, "shared_intermediate_size", 5) ==
        "config.json: shared_intermediate_size: is not supported");
  CHECK(test::refusal_of_field(config, "scoring_func", "softmax") ==
        "config.json: scoring_func: 'softmax' is not supported; supported: sigmoid");
  CHECK(test::refusal_of_field(config, "use_routing_bias", false) ==
        "config.json: use_routing_bias: false is not supported");
}

TEST_CASE("Mellum has Qwen3's experts, and a rotation for each kind of layers") {
  json config = config_of("mellum");
  config.update({{"num_experts", 4},
                 {"sliding_window", 5},
                 {"layer_types", {"full_attention", "sliding_attention", "full_attention"}},
                 {"mlp_layer_types", {"sparse", "dense", "sparse"}},
                 {"rope_parameters", {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 700.0}}}}}});
  const ModelSpec spec = test::described(config);
  CHECK(test::attention_of(spec).query_key_norm);
  CHECK(test::attention_of(spec).window == 0);
  CHECK(test::attention_of(spec).rope->theta == 700.0);
  CHECK(spec.layers[1].attention()->window == 5);
  CHECK(spec.layers[1].attention()->rope->theta == 10000.0);
  CHECK(spec.layers[0].mlp.experts->normalize);
  CHECK(!spec.layers[1].mlp.experts);
}

}  // namespace ballast::model::mixtures_test
