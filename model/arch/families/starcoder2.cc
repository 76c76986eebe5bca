// StarCoder2: Mistral's heads and window, LayerNorms with biases, a plain MLP with GPT-2's names.
#include <array>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/gguf_config.h"

namespace ballast::model {

namespace starcoder2 {
namespace {

constexpr std::array<TensorNames, 11> kNames{{
    {Role::kEmbedding, "model.embed_tokens", "token_embd"},
    {Role::kFinalNorm, "model.norm", "output_norm"},
    {Role::kHead, "lm_head", "output"},
    {Role::kAttentionNorm, "model.layers.{}.input_layernorm", "blk.{}.attn_norm"},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    {Role::kKey, "model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
    {Role::kValue, "model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    {Role::kAttentionOutput, "model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    {Role::kMlpNorm, "model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"},
    {Role::kUp, "model.layers.{}.mlp.c_fc", "blk.{}.ffn_up"},
    {Role::kDown, "model.layers.{}.mlp.c_proj", "blk.{}.ffn_down"},
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

// A GGUF does not store a window.
nlohmann::json config_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, "starcoder2", {.layer_norm = true});
  config["architectures"] = {"Starcoder2ForCausalLM"};
  config["hidden_act"] = "gelu_pytorch_tanh";
  config["norm_epsilon"] = config["layer_norm_eps"];
  config["use_bias"] = file.contains("blk.0.attn_q.bias");
  return config;
}

}  // namespace
}  // namespace starcoder2

constinit const Architecture kStarcoder2 = {
    .model_type = "starcoder2",
    .gguf_architecture = "starcoder2",
    .names = starcoder2::kNames,
    .describe = starcoder2::describe,
    .config_from_gguf = starcoder2::config_from_gguf,
};

}  // namespace ballast::model
