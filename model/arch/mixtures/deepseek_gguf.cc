// GGUFs of DeepSeek-V2 and V3, and of families with the same layers (GLM-4.7-Flash, Kimi K2). All have the name
// "deepseek2".
#include <string>

#include "model/arch/architectures.h"
#include "model/arch/gguf_config.h"
#include "model/arch/mixtures/latent.h"

namespace ballast::model {

namespace deepseek_gguf {
namespace {

constexpr std::size_t kSigmoid = 2;  // a value of expert_gating_func

// Returns whether the scores are sigmoids. Files without the key, which is newer, are V2's, except those whose experts
// have a correction.
bool scores_by_sigmoid(const files::GgufFile& file, const GgufMetadata& metadata) {
  if (metadata.has("expert_gating_func")) return metadata.count("expert_gating_func", 0) == kSigmoid;
  return file.contains("blk." + std::to_string(metadata.layers() - 1) + ".exp_probs_b.bias");
}

void set_sizes_of_heads(const GgufMetadata& metadata, nlohmann::json& config) {
  const std::size_t rotated = metadata.size("rope.dimension_count");
  const bool absorbed = metadata.has("attention.key_length_mla");  // false in files from before llama.cpp did that
  const char* keys = absorbed ? "attention.key_length_mla" : "attention.key_length";
  const std::size_t key_size = metadata.size(keys);
  if (key_size <= rotated) metadata.fail(keys, "must be more than rope.dimension_count");
  config["qk_rope_head_dim"] = rotated;
  config["qk_nope_head_dim"] = key_size - rotated;
  config["v_head_dim"] = metadata.size(absorbed ? "attention.value_length_mla" : "attention.value_length");
  config["kv_lora_rank"] = metadata.size("attention.kv_lora_rank");
  if (metadata.has("attention.q_lora_rank")) config["q_lora_rank"] = metadata.size("attention.q_lora_rank");
}

void set_experts(const GgufMetadata& metadata, bool sigmoid, nlohmann::json& config) {
  const std::size_t groups = metadata.size("expert_group_count", 1);
  config["n_routed_experts"] = metadata.size("expert_count");
  config["num_experts_per_tok"] = metadata.size("expert_used_count");
  config["n_shared_experts"] = metadata.count("expert_shared_count", 0);
  config["moe_intermediate_size"] = metadata.size("expert_feed_forward_length");
  config["first_k_dense_replace"] = metadata.count("leading_dense_block_count", 0);
  config["routed_scaling_factor"] = metadata.number("expert_weights_scale", 1.0);
  config["norm_topk_prob"] = metadata.flag("expert_weights_norm", false);
  config["n_group"] = groups;
  config["topk_group"] = metadata.size("expert_group_used_count", groups);
  if (!sigmoid) config["topk_method"] = groups > 1 ? "group_limited_greedy" : "greedy";
}

}  // namespace
}  // namespace deepseek_gguf

nlohmann::json deepseek_from_gguf(const files::GgufFile& file) {
  const GgufMetadata metadata(file, kDeepseekV2.gguf_architecture);
  const bool sigmoid = deepseek_gguf::scores_by_sigmoid(file, metadata);
  const std::size_t heads = metadata.size("attention.head_count");
  nlohmann::json config = {
      {"model_type", sigmoid ? kDeepseekV3.model_type : kDeepseekV2.model_type},
      {"architectures", {sigmoid ? "DeepseekV3ForCausalLM" : "DeepseekV2ForCausalLM"}},
      {"hidden_act", "silu"},
      {"num_hidden_layers", metadata.layers()},
      {"hidden_size", metadata.size("embedding_length")},
      {"num_attention_heads", heads},
      {"num_key_value_heads", heads},
      {"intermediate_size", metadata.size("feed_forward_length")},
      {"vocab_size", gguf_vocab_size(file)},
      {"max_position_embeddings", metadata.size("context_length", 2048)},
      {"rms_norm_eps", metadata.positive("attention.layer_norm_rms_epsilon")},
      {"attention_bias", file.contains("blk.0.attn_output.bias")},
      {"rope_parameters", rope_parameters_from_gguf(file, metadata.key(""), metadata.size("rope.dimension_count"))},
      {"tie_word_embeddings", !file.contains("output.weight")},
  };
  deepseek_gguf::set_sizes_of_heads(metadata, config);
  deepseek_gguf::set_experts(metadata, sigmoid, config);
  // A GGUF does not store the factors: all published models have the same value for both.
  if (const double multiplier = metadata.number("rope.scaling.yarn_log_multiplier", 0); multiplier != 0) {
    config["rope_parameters"]["mscale"] = config["rope_parameters"]["mscale_all_dim"] = 10 * multiplier;
  }
  copy_token_ids(file, config);
  return config;
}

nlohmann::json glm4_moe_from_gguf(const files::GgufFile& file) {
  nlohmann::json config =
      llama_line_from_gguf(file, kGlm4Moe.gguf_architecture, {.experts = true, .partial_rotation = true});
  const GgufMetadata metadata(file, kGlm4Moe.gguf_architecture);
  if (metadata.has("rope.dimension_sections")) {
    metadata.fail("rope.dimension_sections", "multimodal models are not supported in a GGUF of this family");
  }
  config["model_type"] = kGlm4Moe.model_type;
  config["architectures"] = {"Glm4MoeForCausalLM"};
  config["attention_bias"] = file.contains("blk.0.attn_q.bias");
  config["use_qk_norm"] = file.contains("blk.0.attn_q_norm.weight");
  deepseek_gguf::set_experts(metadata, true, config);
  return config;
}

}  // namespace ballast::model
