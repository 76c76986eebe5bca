// GLM-4's dense models: gate and up in one matrix, half of each head rotated in adjacent pairs, biases on queries, keys
// and values. The later ones (glm4) also normalize the outputs of attention and MLP.
#include <array>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/gguf_config.h"

namespace ballast::model {

namespace glm {
namespace {

constexpr std::array<TensorNames, 14> kNames{{
    {Role::kEmbedding, "model.embed_tokens", "token_embd"},
    {Role::kFinalNorm, "model.norm", "output_norm"},
    {Role::kHead, "lm_head", "output"},
    {Role::kAttentionNorm, "model.layers.{}.input_layernorm", "blk.{}.attn_norm"},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    {Role::kKey, "model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
    {Role::kValue, "model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    {Role::kAttentionOutput, "model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    {Role::kAttentionPostNorm, "model.layers.{}.post_self_attn_layernorm", "blk.{}.post_attention_norm"},
    {Role::kMlpNorm, "model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"},
    {Role::kGate, "model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"},
    {Role::kUp, "model.layers.{}.mlp.up_proj", "blk.{}.ffn_up"},
    {Role::kDown, "model.layers.{}.mlp.down_proj", "blk.{}.ffn_down"},
    {Role::kMlpPostNorm, "model.layers.{}.post_mlp_layernorm", "blk.{}.post_ffw_norm"},
}};

constexpr std::array kMlpParts = {Role::kGate, Role::kUp};
constexpr std::array<FusedTensor, 1> kFused{
    {{"model.layers.{}.mlp.gate_up_proj", "blk.{}.ffn_up", kMlpParts, FusedTensor::Runs::kOne}}};

DecoderConfig describe_common(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(
      config,
      {.context = 131072, .epsilon = 1.5625e-7, .heads = {.kv_heads = 2, .head_size = 128}, .rope = {.partial = 0.5}});
  BiasSpec& biases = decoder.spec.biases;
  biases.query = biases.key = biases.value = config.flag("attention_bias", true);
  return decoder;
}

ModelSpec describe_glm(const files::JsonReader& config) {
  return describe_common(config).finish();
}

ModelSpec describe_glm4(const files::JsonReader& config) {
  DecoderConfig decoder = describe_common(config);
  decoder.spec.post_norms = true;
  return decoder.finish();
}

nlohmann::json glm4_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, "glm4", {.partial_rotation = true});
  const GgufMetadata metadata(file, "glm4");
  if (metadata.has("rope.dimension_sections")) {
    metadata.fail("rope.dimension_sections", "multimodal models are not supported in a GGUF of this family");
  }
  config["architectures"] = {"Glm4ForCausalLM"};
  config["attention_bias"] = file.contains("blk.0.attn_q.bias");
  return config;
}

}  // namespace
}  // namespace glm

constinit const Architecture kGlm = {
    .model_type = "glm",
    .names = glm::kNames,
    .fused = glm::kFused,
    .describe = glm::describe_glm,
    .huggingface_interleaves_rope = true,
};

constinit const Architecture kGlm4 = {
    .model_type = "glm4",
    .gguf_architecture = "glm4",
    .names = glm::kNames,
    .fused = glm::kFused,
    .describe = glm::describe_glm4,
    .config_from_gguf = glm::glm4_from_gguf,
    .huggingface_interleaves_rope = true,
    .gguf_interleaves_rope = true,
};

}  // namespace ballast::model
