// GPT-NeoX and Pythia: queries, keys and values of a head side by side, parallel residual, partial RoPE, LayerNorm.
#include <array>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/gguf_config.h"
#include "model/arch/rope_config.h"

namespace ballast::model {

namespace gpt_neox {
namespace {

constexpr std::array<TensorNames, 11> kNames{{
    {Role::kEmbedding, "gpt_neox.embed_in", "token_embd"},
    {Role::kFinalNorm, "gpt_neox.final_layer_norm", "output_norm"},
    {Role::kHead, "embed_out", "output"},
    {Role::kAttentionNorm, "gpt_neox.layers.{}.input_layernorm", "blk.{}.attn_norm"},
    {Role::kQuery, "gpt_neox.layers.{}.attention.query", ""},
    {Role::kKey, "gpt_neox.layers.{}.attention.key", ""},
    {Role::kValue, "gpt_neox.layers.{}.attention.value", ""},
    {Role::kAttentionOutput, "gpt_neox.layers.{}.attention.dense", "blk.{}.attn_output"},
    {Role::kMlpNorm, "gpt_neox.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"},
    {Role::kUp, "gpt_neox.layers.{}.mlp.dense_h_to_4h", "blk.{}.ffn_up"},
    {Role::kDown, "gpt_neox.layers.{}.mlp.dense_4h_to_h", "blk.{}.ffn_down"},
}};

constexpr std::array kAttentionParts = {Role::kQuery, Role::kKey, Role::kValue};
constexpr std::array<FusedTensor, 2> kFused{{
    {"gpt_neox.layers.{}.attention.query_key_value", "", kAttentionParts, FusedTensor::Runs::kHeads},
    {"", "blk.{}.attn_qkv", kAttentionParts, FusedTensor::Runs::kOne},
}};

ModelSpec describe(const files::JsonReader& config) {
  DecoderConfig decoder = read_sizes(config);
  ModelSpec& spec = decoder.spec;
  spec.norm = {.kind = NormSpec::Kind::kLayer, .epsilon = config.positive("layer_norm_eps", 1e-5), .bias = true};
  spec.layout = config.flag("use_parallel_residual", true) ? BlockLayout::kParallel : BlockLayout::kPreNorm;
  decoder.mlp.activation = read_activation(config, "hidden_act", "gelu");
  decoder.mlp.gated = false;
  const bool attention_bias = config.flag("attention_bias", true);
  spec.biases = {.query = attention_bias,
                 .key = attention_bias,
                 .value = attention_bias,
                 .attention_output = attention_bias,
                 .up = true,
                 .down = true};
  decoder.attention = read_heads(config, "num_attention_heads", "num_attention_heads", spec.hidden_size);
  decoder.attention.rope = read_rope(config, decoder.attention.head_size, {.partial = 0.25});
  return decoder.finish();
}

nlohmann::json config_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, "gptneox", {.partial_rotation = true, .layer_norm = true});
  const GgufMetadata metadata(file, "gptneox");
  config["model_type"] = kGptNeox.model_type;
  config["architectures"] = {"GPTNeoXForCausalLM"};
  config["hidden_act"] = "gelu";
  config["use_parallel_residual"] = metadata.flag("use_parallel_residual", true);
  config["attention_bias"] = file.contains("blk.0.attn_qkv.bias");
  return config;
}

}  // namespace
}  // namespace gpt_neox

constinit const Architecture kGptNeox = {
    .model_type = "gpt_neox",
    .gguf_architecture = "gptneox",
    .names = gpt_neox::kNames,
    .fused = gpt_neox::kFused,
    .describe = gpt_neox::describe,
    .config_from_gguf = gpt_neox::config_from_gguf,
};

}  // namespace ballast::model
