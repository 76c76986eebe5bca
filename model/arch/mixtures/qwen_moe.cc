// Mixtures of Qwen2 (with a shared MLP in addition to the experts) and Qwen3: experts in place of the MLP, in all
// layers or every few. Mellum: Qwen3's, with windows and another rotation in some layers.
#include <cstddef>
#include <vector>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/gguf_config.h"
#include "model/arch/gguf_fields.h"
#include "model/arch/mixtures/shared_experts.h"

namespace ballast::model {

namespace qwen_moe {
namespace {

constexpr auto kNames = joined_names(kLlamaNames, kQwenExpertNames);

// Reads the number of experts from transformers 5's field or the older one.
ExpertSpec read_routed_experts(const files::JsonReader& config) {
  const char* count = config.has("num_local_experts") ? "num_local_experts" : "num_experts";
  // The configuration classes have defaults that no published model has.
  for (const char* field : {count, "num_experts_per_tok", "moe_intermediate_size"}) {
    if (!config.has(field)) config.fail(field, "missing");
  }
  ExpertSpec experts = read_experts(config, count, "moe_intermediate_size");
  experts.normalize = config.flag("norm_topk_prob", false);
  return experts;
}

ModelSpec describe_qwen3(const files::JsonReader& config) {
  if (!config.has("head_dim")) config.fail("head_dim", "missing");
  DecoderConfig decoder = read_llama_line(config);
  read_attention_biases(config, decoder.spec.biases);
  decoder.attention.query_key_norm = HeadNormSpec{};
  ModelSpec spec = decoder.finish();
  set_sparse_layers(config, read_routed_experts(config), spec);
  if (config.flag("use_sliding_window", false)) set_uniform_window(config, 4096, spec);
  return spec;
}

ModelSpec describe_qwen2(const files::JsonReader& config) {
  // The types in layer_types would then depend on the version of transformers.
  if (config.flag("use_sliding_window", false)) config.fail("use_sliding_window", "true is not supported");
  DecoderConfig decoder = read_llama_line(config, {.context = 32768, .heads = {.kv_heads = 16}});
  BiasSpec& biases = decoder.spec.biases;
  biases.query = biases.key = biases.value = config.flag("qkv_bias", true);
  ModelSpec spec = decoder.finish();
  ExpertSpec experts = read_routed_experts(config);
  experts.shared_size = config.size("shared_expert_intermediate_size", 5632);
  experts.shared_router = true;
  set_sparse_layers(config, experts, spec);
  return spec;
}

ModelSpec describe_mellum(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(config, {.context = 131072, .heads = {.kv_heads = 4, .head_size = 128}});
  read_attention_biases(config, decoder.spec.biases);
  decoder.attention.query_key_norm = HeadNormSpec{};
  ModelSpec spec = decoder.finish();
  ExpertSpec experts = read_routed_experts(config);
  experts.normalize = config.flag("norm_topk_prob", true);
  if (!set_experts_by_type(config, experts, spec)) set_experts_from(0, experts, spec);
  const std::size_t head_size = decoder.attention.head_size;
  const RopeSpec global = read_rope_of_type(config, "full_attention", head_size, {.theta = 500000.0});
  const RopeSpec local = read_rope_of_type(config, "sliding_attention", head_size, {});
  std::vector<bool> sliding(decoder.layers, false);
  if (config.has("layer_types")) sliding = read_sliding_layers(config, decoder.layers, 1);
  set_layer_types(sliding, read_window(config, 1024), local, global, spec);
  return spec;
}

nlohmann::json qwen2_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, "qwen2moe", {.experts = true});
  const GgufMetadata metadata(file, "qwen2moe");
  config["model_type"] = kQwen2Moe.model_type;
  config["architectures"] = {"Qwen2MoeForCausalLM"};
  config["qkv_bias"] = file.contains("blk.0.attn_q.bias");
  config["num_experts"] = metadata.size("expert_count");
  config["num_experts_per_tok"] = metadata.size("expert_used_count");
  config["moe_intermediate_size"] = metadata.size("expert_feed_forward_length");
  config["shared_expert_intermediate_size"] = metadata.size("expert_shared_feed_forward_length");
  config["norm_topk_prob"] = false;  // llama.cpp does not normalize them, and the metadata has no key for it
  return config;
}

nlohmann::json config_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, "qwen3moe", {.experts = true});
  const files::JsonReader metadata(file.config(), file.path().string());
  config["model_type"] = kQwen3Moe.model_type;
  config["architectures"] = {"Qwen3MoeForCausalLM"};
  config["attention_bias"] = file.contains("blk.0.attn_q.bias");
  config["num_experts"] = metadata.size("qwen3moe.expert_count");
  config["num_experts_per_tok"] = metadata.size("qwen3moe.expert_used_count");
  config["moe_intermediate_size"] = metadata.size("qwen3moe.expert_feed_forward_length");
  config["norm_topk_prob"] = true;  // llama.cpp always normalizes them, and the metadata has no key for it
  return config;
}

// llama.cpp has no key for the normalization of the chosen scores.
std::vector<files::GgufField> qwen2_to_gguf(const ModelSpec& spec) {
  return llama_line_to_gguf(spec, {.architecture = "qwen2moe",
                                   .experts = gguf_experts(spec, {.shared_router = true, .normalize = false}),
                                   .head = GgufLine::Head::kOwn,
                                   .wide_attention = false});
}

std::vector<files::GgufField> qwen3_to_gguf(const ModelSpec& spec) {
  return llama_line_to_gguf(spec, {.architecture = "qwen3moe", .experts = gguf_experts(spec, {.normalize = true})});
}

}  // namespace
}  // namespace qwen_moe

constinit const Architecture kQwen2Moe = {
    .model_type = "qwen2_moe",
    .gguf_architecture = "qwen2moe",
    .names = qwen_moe::kNames,
    .fused = kFusedExperts,
    .describe = qwen_moe::describe_qwen2,
    .config_from_gguf = qwen_moe::qwen2_from_gguf,
    .gguf_fields = qwen_moe::qwen2_to_gguf,
};

constinit const Architecture kQwen3Moe = {
    .model_type = "qwen3_moe",
    .gguf_architecture = "qwen3moe",
    .names = qwen_moe::kNames,
    .fused = kFusedExperts,
    .describe = qwen_moe::describe_qwen3,
    .config_from_gguf = qwen_moe::config_from_gguf,
    .gguf_fields = qwen_moe::qwen3_to_gguf,
};

constinit const Architecture kMellum = {
    .model_type = "mellum",
    .names = qwen_moe::kNames,
    .fused = kFusedExperts,
    .describe = qwen_moe::describe_mellum,
};

}  // namespace ballast::model
