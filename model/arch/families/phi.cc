// Phi-1 to Phi-2: attention and MLP in parallel on one LayerNorm, partial RoPE, biases everywhere, the head's included.
#include <array>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/rope_config.h"

namespace ballast::model {

namespace {

constexpr std::array<TensorNames, 11> kNames{{
    {Role::kEmbedding, "model.embed_tokens", ""},
    {Role::kFinalNorm, "model.final_layernorm", ""},
    {Role::kHead, "lm_head", ""},
    {Role::kHeadBias, "lm_head.bias", ""},
    {Role::kAttentionNorm, "model.layers.{}.input_layernorm", ""},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj", ""},
    {Role::kKey, "model.layers.{}.self_attn.k_proj", ""},
    {Role::kValue, "model.layers.{}.self_attn.v_proj", ""},
    {Role::kAttentionOutput, "model.layers.{}.self_attn.dense", ""},
    {Role::kUp, "model.layers.{}.mlp.fc1", ""},
    {Role::kDown, "model.layers.{}.mlp.fc2", ""},
}};

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

}  // namespace

constinit const Architecture kPhi = {
    .model_type = "phi",
    .names = kNames,
    .describe = describe,
};

}  // namespace ballast::model
