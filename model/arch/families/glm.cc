// GLM-4's dense models: gate and up in one matrix, half of each head rotated, in pairs side by side, biases on queries,
// keys and values. The later ones (glm4) also normalize what attention and MLP return.
#include <array>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace {

constexpr std::array<TensorNames, 14> kNames{{
    {Role::kEmbedding, "model.embed_tokens", ""},
    {Role::kFinalNorm, "model.norm", ""},
    {Role::kHead, "lm_head", ""},
    {Role::kAttentionNorm, "model.layers.{}.input_layernorm", ""},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj", ""},
    {Role::kKey, "model.layers.{}.self_attn.k_proj", ""},
    {Role::kValue, "model.layers.{}.self_attn.v_proj", ""},
    {Role::kAttentionOutput, "model.layers.{}.self_attn.o_proj", ""},
    {Role::kAttentionPostNorm, "model.layers.{}.post_self_attn_layernorm", ""},
    {Role::kMlpNorm, "model.layers.{}.post_attention_layernorm", ""},
    {Role::kGate, "model.layers.{}.mlp.gate_proj", ""},
    {Role::kUp, "model.layers.{}.mlp.up_proj", ""},
    {Role::kDown, "model.layers.{}.mlp.down_proj", ""},
    {Role::kMlpPostNorm, "model.layers.{}.post_mlp_layernorm", ""},
}};

constexpr std::array kMlpParts = {Role::kGate, Role::kUp};
constexpr std::array<FusedTensor, 1> kFused{
    {{"model.layers.{}.mlp.gate_up_proj", "", kMlpParts, FusedTensor::Runs::kOne}}};

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

}  // namespace

constinit const Architecture kGlm = {
    .model_type = "glm",
    .names = kNames,
    .fused = kFused,
    .describe = describe_glm,
    .huggingface_interleaves_rope = true,
};

constinit const Architecture kGlm4 = {
    .model_type = "glm4",
    .names = kNames,
    .fused = kFused,
    .describe = describe_glm4,
    .huggingface_interleaves_rope = true,
};

}  // namespace ballast::model
