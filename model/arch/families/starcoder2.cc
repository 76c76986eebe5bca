// StarCoder2: Mistral's heads and window, LayerNorms with biases, a plain MLP with GPT-2's names.
#include <array>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace {

constexpr std::array<TensorNames, 11> kNames{{
    {Role::kEmbedding, "model.embed_tokens", ""},
    {Role::kFinalNorm, "model.norm", ""},
    {Role::kHead, "lm_head", ""},
    {Role::kAttentionNorm, "model.layers.{}.input_layernorm", ""},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj", ""},
    {Role::kKey, "model.layers.{}.self_attn.k_proj", ""},
    {Role::kValue, "model.layers.{}.self_attn.v_proj", ""},
    {Role::kAttentionOutput, "model.layers.{}.self_attn.o_proj", ""},
    {Role::kMlpNorm, "model.layers.{}.post_attention_layernorm", ""},
    {Role::kUp, "model.layers.{}.mlp.c_fc", ""},
    {Role::kDown, "model.layers.{}.mlp.c_proj", ""},
}};

ModelSpec describe(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(
      config, {.context = 4096, .tied_embeddings = true, .activation = "gelu_pytorch_tanh", .heads = {.kv_heads = 2}});
  ModelSpec& spec = decoder.spec;
  spec.norm = {.kind = NormSpec::Kind::kLayer, .epsilon = config.positive("norm_epsilon", 1e-5), .bias = true};
  decoder.mlp.gated = false;
  const bool bias = config.flag("use_bias", true);
  spec.biases = {.query = bias, .key = bias, .value = bias, .attention_output = bias, .up = bias, .down = bias};
  ModelSpec finished = decoder.finish();
  set_uniform_window(config, {}, finished);
  return finished;
}

}  // namespace

constinit const Architecture kStarcoder2 = {
    .model_type = "starcoder2",
    .names = kNames,
    .describe = describe,
};

}  // namespace ballast::model
