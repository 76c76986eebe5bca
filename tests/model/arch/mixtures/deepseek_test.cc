#include <doctest/doctest.h>

#include <cmath>

#include "described.h"

namespace ballast::model::deepseek_test {

using nlohmann::json;
using test::described;
using test::with_field;

json config_of(const char* model_type) {
  return {{"model_type", model_type},
          {"num_hidden_layers", 3},
          {"hidden_size", 32},
          {"num_attention_heads", 4},
          {"intermediate_size", 40},
          {"moe_intermediate_size", 12},
          {"vocab_size", 10},
          {"kv_lora_rank", 12},
          {"q_lora_rank", nullptr},
          {"qk_nope_head_dim", 8},
          {"qk_rope_head_dim", 4},
          {"v_head_dim", 6},
          {"n_routed_experts", 6},
          {"n_shared_experts", 2},
          {"num_experts_per_tok", 2},
          {"first_k_dense_replace", 1},
          {"routed_scaling_factor", 2.0},
          {"n_group", 3},
          {"topk_group", 2}};
}

std::string refusal(const char* model_type, const char* field, const json& value) {
  return test::refusal_of_field(config_of(model_type), field, value);
}

TEST_CASE("DeepSeek's heads have plain and rotated channels, and values of a size of their own") {
  const ModelSpec spec = described(config_of("deepseek_v3"));
  const LatentAttentionSpec* latent = spec.layers[2].latent();
  REQUIRE(latent != nullptr);
  CHECK(latent->attention.head_size == 12);
  CHECK(latent->attention.value_size == 6);
  CHECK(latent->attention.kv_heads == 4);
  CHECK(latent->attention.rope->rotary_size == 4);
  CHECK(latent->query_rank == 0);
  CHECK(latent->key_value_rank == 12);
  const ModelSpec with_rank = described(with_field(config_of("deepseek_v3"), "q_lora_rank", 16));
  CHECK(with_rank.layers[0].latent()->query_rank == 16);
  CHECK(!spec.layers[0].mlp.experts);
  REQUIRE(spec.layers[1].mlp.experts);
  CHECK(spec.layers[1].mlp.experts->shared_size == 24);
}

TEST_CASE("YaRN with a magnitude for all dimensions scales DeepSeek's softmax by its square") {
  const json yarn = {{"type", "yarn"},
                     {"factor", 4.0},
                     {"original_max_position_embeddings", 16},
                     {"mscale", 0.7},
                     {"mscale_all_dim", 0.9}};
  const double factor = 0.1 * 0.9 * std::log(4.0) + 1;
  CHECK(described(config_of("deepseek_v2")).layers[0].attention()->scale == doctest::Approx(1 / std::sqrt(12.0)));
  CHECK(described(with_field(config_of("deepseek_v2"), "rope_scaling", yarn)).layers[0].attention()->scale ==
        doctest::Approx(factor * factor / std::sqrt(12.0)));
}

TEST_CASE("V3 routes by sigmoids with a correction, V2 by a softmax, greedily by default") {
  const ExpertSpec v3 = *described(config_of("deepseek_v3")).layers[1].mlp.experts;
  CHECK(v3.scoring == ExpertSpec::Scoring::kSigmoid);
  CHECK(v3.group_score == ExpertSpec::GroupScore::kTopTwoSum);
  CHECK(v3.correction_bias);
  CHECK(v3.normalize);
  CHECK(v3.groups == 3);
  const ExpertSpec v2 = *described(config_of("deepseek_v2")).layers[1].mlp.experts;
  CHECK(v2.scoring == ExpertSpec::Scoring::kSoftmax);
  CHECK(v2.group_score == ExpertSpec::GroupScore::kMax);
  CHECK(!v2.correction_bias);
  CHECK(v2.groups == 1);
  const ModelSpec grouped = described(with_field(config_of("deepseek_v2"), "topk_method", "group_limited_greedy"));
  CHECK(grouped.layers[1].mlp.experts->groups == 3);
}

TEST_CASE("GLM-4.7-Flash is a V3 whose configuration lists the layers with experts") {
  json config = config_of("glm4_moe_lite");
  config.erase("first_k_dense_replace");
  config["mlp_layer_types"] = {"sparse", "dense", "sparse"};
  const ModelSpec spec = described(config);
  CHECK(spec.norm.epsilon == 1e-5);
  CHECK(spec.layers[0].latent() != nullptr);
  CHECK(spec.layers[0].mlp.experts);
  CHECK(!spec.layers[1].mlp.experts);
  CHECK(spec.layers[2].mlp.experts->correction_bias);
  CHECK(test::refusal_of_field(config, "mlp_layer_types", {"sparse", "dense"}) ==
        "config.json: mlp_layer_types: has 2 entries for 3 layers");
  CHECK(test::refusal_of_field(config, "mlp_layer_types", {"sparse", "dense", "routed"}) ==
        test::Contains("'routed' is not supported; supported: dense, sparse"));
  config.erase("mlp_layer_types");
  config["first_k_dense_replace"] = 2;
  CHECK(!described(config).layers[1].mlp.experts);
}

json mistral4() {
  json config = config_of("mistral4");
  config.erase("first_k_dense_replace");
  config["rope_parameters"] = {{"type", "yarn"},
                               {"rope_theta", 1e4},
                               {"factor", 4.0},
                               {"original_max_position_embeddings", 16},
                               {"mscale", 1.0},
                               {"mscale_all_dim", 1.0},
                               {"llama_4_scaling_beta", 0.1},
                               {"partial_rotary_factor", 4.0 / 12}};
  return config;
}

TEST_CASE("Mistral 4 has DeepSeek's heads, of which queries grow, and experts by a softmax in every layer") {
  const ModelSpec spec = described(mistral4());
  const AttentionSpec& attention = *spec.layers[0].attention();
  REQUIRE(spec.layers[0].latent() != nullptr);
  CHECK(attention.head_size == 12);
  CHECK(attention.rope->rotary_size == 4);
  CHECK(attention.rope->amplitude == 1.0);
  const double factor = 0.1 * std::log(4.0) + 1;
  CHECK(attention.scale == doctest::Approx(factor * factor / std::sqrt(12.0)));
  REQUIRE(attention.query_growth);
  CHECK(attention.query_growth->factor(15) == 1.0);
  CHECK(attention.query_growth->factor(16) == doctest::Approx(1 + 0.1 * std::log(2.0)));
  CHECK(spec.context_length == 1048576);
  REQUIRE(spec.layers[0].mlp.experts);
  const ExpertSpec& experts = *spec.layers[0].mlp.experts;
  CHECK(experts.scoring == ExpertSpec::Scoring::kSoftmax);
  CHECK(experts.group_score == ExpertSpec::GroupScore::kTopTwoSum);
  CHECK(!experts.correction_bias);
  CHECK(experts.normalize);
  CHECK(experts.groups == 3);
  CHECK(experts.shared_size == 24);
  json absent = mistral4();
  for (const char* field : {"n_shared_experts", "routed_scaling_factor", "n_group", "topk_group"}) absent.erase(field);
  CHECK(described(absent).layers[0].mlp.experts->shared_size == 12);
  CHECK(described(absent).layers[0].mlp.experts->groups == 1);
}

TEST_CASE("Mistral 4's rotation must be given and agree with qk_rope_head_dim") {
  json config = mistral4();
  config["rope_parameters"].erase("partial_rotary_factor");
  CHECK(described(config).layers[0].attention()->rope->rotary_size == 4);
  config["rope_parameters"]["partial_rotary_factor"] = 0.5;
  CHECK(test::error_message([&] { described(config); }) ==
        "config.json: qk_rope_head_dim: is 4, but partial_rotary_factor makes 6 channels of a head rotate");
  CHECK(test::refusal_of_field(mistral4(), "rope_parameters", nullptr) == "config.json: rope_parameters: missing");
  CHECK(test::refusal_of_field(mistral4(), "rope_interleave", false) ==
        "config.json: rope_interleave: false is not supported");
}

TEST_CASE("DeepSeek's settings that are not supported or make no sense are refused by field") {
  CHECK(refusal("deepseek_v3", "num_key_value_heads", 2) ==
        test::Contains("config.json: num_key_value_heads: must be num_attention_heads"));
  CHECK(refusal("deepseek_v3", "rope_interleave", false) == "config.json: rope_interleave: false is not supported");
  CHECK(refusal("deepseek_v3", "n_group", 4) == "config.json: n_group: must divide the number of experts");
  CHECK(refusal("deepseek_v3", "n_group", 6) == test::Contains("n_group: leaves fewer than two experts to a group"));
  CHECK(refusal("deepseek_v3", "topk_group", 4) == "config.json: topk_group: must be at most n_group");
  CHECK(refusal("deepseek_v3", "num_experts_per_tok", 5) ==
        "config.json: num_experts_per_tok: is more than the experts of topk_group groups");
  CHECK(refusal("deepseek_v3", "moe_layer_freq", 2) == "config.json: moe_layer_freq: must be 1, is 2");
  CHECK(refusal("deepseek_v3", "qk_rope_head_dim", 3) == test::Contains("must be an even number"));
  CHECK(refusal("deepseek_v3", "kv_lora_rank", -1) ==
        "config.json: kv_lora_rank: must be between 1 and 2^31 - 1, is -1");
  CHECK(refusal("deepseek_v2", "topk_method", "noaux_tc") ==
        "config.json: topk_method: 'noaux_tc' is not supported; supported: greedy, group_limited_greedy");
  CHECK(refusal("deepseek_v2", "scoring_func", "sigmoid") ==
        "config.json: scoring_func: 'sigmoid' is not supported; supported: softmax");
  CHECK(refusal("deepseek_v3", "scoring_func", "softmax") ==
        "config.json: scoring_func: 'softmax' is not supported; supported: sigmoid");
  CHECK(refusal("deepseek_v3", "topk_method", "greedy") ==
        "config.json: topk_method: 'greedy' is not supported; supported: noaux_tc");
  CHECK(refusal("deepseek_v3", "n_routed_experts", 1 << 30) == "config.json: n_routed_experts: must be at most 65536");
  for (const char* field : {"routed_scaling_factor", "n_group", "topk_group", "n_shared_experts"}) {
    CHECK(refusal("deepseek_v3", field, nullptr) == "config.json: " + std::string(field) + ": missing");
  }
  CHECK(refusal("deepseek_v2", "norm_topk_prob", true) == "config.json: norm_topk_prob: true is not supported");
}

}  // namespace ballast::model::deepseek_test
