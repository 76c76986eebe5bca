#include "model/arch/hybrids/qwen_hybrid.h"

#include <string>
#include <vector>

#include "model/arch/gguf_config.h"
#include "model/arch/rope_config.h"

namespace ballast::model {

namespace qwen_hybrid {
namespace {

GatedDeltaSpec read_delta(const files::JsonReader& config) {
  GatedDeltaSpec delta = {.key_heads = config.size("linear_num_key_heads", 16),
                          .value_heads = config.size("linear_num_value_heads", 32),
                          .key_size = config.size("linear_key_head_dim", 128),
                          .value_size = config.size("linear_value_head_dim", 128),
                          .width = config.size("linear_conv_kernel_dim", 4),
                          .epsilon = config.positive("rms_norm_eps", 1e-6)};
  if (delta.value_heads % delta.key_heads != 0) {
    config.fail("linear_num_value_heads", "must be a multiple of linear_num_key_heads");
  }
  return delta;
}

/// Returns which layers attend.
std::vector<bool> attending_layers(const files::JsonReader& config, std::size_t layers) {
  if (config.has("layer_types")) {
    return read_layers_of_type(config, layers, "full_attention", {"full_attention", "linear_attention"});
  }
  const std::size_t interval = config.size("full_attention_interval", 4);
  std::vector<bool> attending(layers);
  for (std::size_t layer = 0; layer < layers; ++layer) attending[layer] = (layer + 1) % interval == 0;
  return attending;
}

}  // namespace
}  // namespace qwen_hybrid

ModelSpec describe_qwen_hybrid(const files::JsonReader& config) {
  // The configuration classes have a default that no other family has.
  if (!config.has("head_dim")) config.fail("head_dim", "missing");
  if (config.text("hidden_act", "silu") != "silu") config.fail("hidden_act", "must be 'silu'");
  if (!config.flag("attn_output_gate", true)) config.fail("attn_output_gate", "false is not supported");
  DecoderConfig decoder = read_llama_line(config);
  decoder.attention.rope = read_rope(config, decoder.attention.head_size, {.partial = 0.25});
  read_attention_biases(config, decoder.spec.biases);
  decoder.spec.biases.output_gate = decoder.spec.biases.query;
  decoder.attention.query_key_norm = HeadNormSpec{};
  decoder.attention.output_gate = true;
  decoder.spec.norm.gain_offset = 1.0;
  ModelSpec spec = decoder.finish();
  const std::vector<bool> attending = qwen_hybrid::attending_layers(config, decoder.layers);
  const GatedDeltaSpec delta = qwen_hybrid::read_delta(config);
  for (std::size_t layer = 0; layer < decoder.layers; ++layer) {
    if (!attending[layer]) spec.layers[layer].mixer = delta;
  }
  return spec;
}

nlohmann::json qwen_hybrid_from_gguf(const files::GgufFile& file, std::string_view architecture) {
  nlohmann::json config = llama_line_from_gguf(file, architecture, {.experts = true, .partial_rotation = true});
  const GgufMetadata metadata(file, architecture);
  config["attention_bias"] = file.contains("blk.0.attn_q.bias");
  const std::size_t heads = metadata.size("ssm.time_step_rank");
  const std::size_t values = metadata.size("ssm.inner_size");
  if (values % heads != 0) metadata.fail("ssm.inner_size", "must be a multiple of ssm.time_step_rank");
  config["linear_num_key_heads"] = metadata.size("ssm.group_count");
  config["linear_num_value_heads"] = heads;
  config["linear_key_head_dim"] = metadata.size("ssm.state_size");
  config["linear_value_head_dim"] = values / heads;
  config["linear_conv_kernel_dim"] = metadata.size("ssm.conv_kernel");
  config["full_attention_interval"] = metadata.size("full_attention_interval", 4);
  if (metadata.has("attention.recurrent_layers")) {
    nlohmann::json types = nlohmann::json::array();
    for (const files::JsonReader& recurrent : metadata.at("attention.recurrent_layers").elements()) {
      if (types.size() == metadata.layers()) break;
      types.push_back(recurrent.boolean() ? "linear_attention" : "full_attention");
    }
    config["layer_types"] = types;
  }
  config["num_experts"] = metadata.count("expert_count", 0);
  if (config["num_experts"] == 0) return config;
  config["num_experts_per_tok"] = metadata.size("expert_used_count");
  config["moe_intermediate_size"] = metadata.size("expert_feed_forward_length");
  config["shared_expert_intermediate_size"] = metadata.size("expert_shared_feed_forward_length");
  config["norm_topk_prob"] = true;  // llama.cpp always normalizes them, and the metadata has no key for it
  return config;
}

ExpertSpec read_qwen_experts(const files::JsonReader& config) {
  for (const char* field : {"num_experts", "num_experts_per_tok", "moe_intermediate_size"}) {
    if (!config.has(field)) config.fail(field, "missing");
  }
  ExpertSpec experts = read_experts(config, "num_experts", "moe_intermediate_size");
  experts.shared_size = config.size("shared_expert_intermediate_size", 512);
  experts.shared_router = true;
  return experts;
}

}  // namespace ballast::model
