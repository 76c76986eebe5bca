// Phi-1 to Phi-2: attention and MLP in parallel on one LayerNorm, partial RoPE, biases everywhere, the head's included.
#include <array>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/gguf_config.h"
#include "model/arch/rope_config.h"

namespace ballast::model {

namespace phi {
namespace {

constexpr std::array<TensorNames, 11> kNames{{
    {Role::kEmbedding, "model.embed_tokens", "token_embd"},
    {Role::kFinalNorm, "model.final_layernorm", "output_norm"},
    {Role::kHead, "lm_head", "output"},
    {Role::kHeadBias, "lm_head.bias", "output.bias"},
    {Role::kAttentionNorm, "model.layers.{}.input_layernorm", "blk.{}.attn_norm"},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    {Role::kKey, "model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
    {Role::kValue, "model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    {Role::kAttentionOutput, "model.layers.{}.self_attn.dense", "blk.{}.attn_output"},
    {Role::kUp, "model.layers.{}.mlp.fc1", "blk.{}.ffn_up"},
    {Role::kDown, "model.layers.{}.mlp.fc2", "blk.{}.ffn_down"},
}};

// Names in the first GGUFs.
constexpr std::array kAttentionParts = {Role::kQuery, Role::kKey, Role::kValue};
constexpr std::array<FusedTensor, 1> kFused{{{"", "blk.{}.attn_qkv", kAttentionParts, FusedTensor::Runs::kOne}}};

ModelSpec describe(const files::JsonReader& config) {
  DecoderConfig decoder = read_sizes(config);
  ModelSpec& spec = decoder.spec;
  spec.norm = {.kind = NormSpec::Kind::kLayer, .epsilon = config.positive("layer_norm_eps", 1e-5), .bias = true};
  spec.layout = BlockLayout::kParallelShared;
  decoder.mlp.activation = read_activation(config, "hidden_act", "gelu_new");
  decoder.mlp.gated = false;
  spec.biases = {
      .query = true, .key = true, .value = true, .attention_output = true, .up = true, .down = true, .head = true};
  decoder.attention = read_heads(config, "num_attention_heads", "num_key_value_heads", spec.hidden_size);
  decoder.attention.rope = read_rope(config, decoder.attention.head_size, {.partial = 0.5});
  if (config.flag("qk_layernorm", false)) config.fail("qk_layernorm", "true is not supported");
  return decoder.finish();
}

nlohmann::json config_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, "phi2", {.partial_rotation = true, .layer_norm = true});
  config["model_type"] = kPhi.model_type;
  config["architectures"] = {"PhiForCausalLM"};
  config["hidden_act"] = "gelu_new";
  return config;
}

}  // namespace
}  // namespace phi

constinit const Architecture kPhi = {
    .model_type = "phi",
    .gguf_architecture = "phi2",
    .names = phi::kNames,
    .fused = phi::kFused,
    .describe = phi::describe,
    .config_from_gguf = phi::config_from_gguf,
};

}  // namespace ballast::model
