// GPT-2: queries, keys and values in one transposed matrix, learned positions, LayerNorm, biases everywhere, no RoPE.
#include <array>
#include <string_view>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/gguf_config.h"

namespace ballast::model {

namespace gpt2 {
namespace {

constexpr std::array<TensorNames, 12> kNames{{
    {Role::kEmbedding, "transformer.wte", "token_embd"},
    {Role::kPositionEmbedding, "transformer.wpe", "position_embd"},
    {Role::kFinalNorm, "transformer.ln_f", "output_norm"},
    {Role::kHead, "lm_head", "output"},
    {Role::kAttentionNorm, "transformer.h.{}.ln_1", "blk.{}.attn_norm"},
    {Role::kQuery, "transformer.h.{}.attn.q_attn", ""},
    {Role::kKey, "transformer.h.{}.attn.k_attn", ""},
    {Role::kValue, "transformer.h.{}.attn.v_attn", ""},
    {Role::kAttentionOutput, "transformer.h.{}.attn.c_proj", "blk.{}.attn_output"},
    {Role::kMlpNorm, "transformer.h.{}.ln_2", "blk.{}.ffn_norm"},
    {Role::kUp, "transformer.h.{}.mlp.c_fc", "blk.{}.ffn_up"},
    {Role::kDown, "transformer.h.{}.mlp.c_proj", "blk.{}.ffn_down"},
}};

constexpr std::array kAttentionParts = {Role::kQuery, Role::kKey, Role::kValue};
constexpr std::array<FusedTensor, 1> kFused{
    {{"transformer.h.{}.attn.c_attn", "blk.{}.attn_qkv", kAttentionParts, FusedTensor::Runs::kOne}}};

constexpr std::array<std::string_view, 1> kOtherPrefixes{""};

ModelSpec describe(const files::JsonReader& config) {
  DecoderConfig decoder;
  ModelSpec& spec = decoder.spec;
  decoder.layers = read_layer_count(config, "n_layer");
  spec.hidden_size = config.size("n_embd");
  spec.vocab_size = config.size("vocab_size");
  spec.context_length = config.size("n_positions", 1024);
  decoder.mlp.size = config.size("n_inner", 4 * spec.hidden_size);
  spec.tied_embeddings = config.flag("tie_word_embeddings", true);
  spec.norm = {.kind = NormSpec::Kind::kLayer, .epsilon = config.positive("layer_norm_epsilon", 1e-5), .bias = true};
  spec.learned_positions = true;
  decoder.mlp.activation = read_activation(config, "activation_function", "gelu_new");
  decoder.mlp.gated = false;
  spec.biases = {.query = true, .key = true, .value = true, .attention_output = true, .up = true, .down = true};
  decoder.attention = read_heads(config, "n_head", "n_head", spec.hidden_size);
  if (!config.flag("scale_attn_weights", true)) decoder.attention.scale = 1.0;
  if (config.flag("scale_attn_by_inverse_layer_idx", false)) {
    config.fail("scale_attn_by_inverse_layer_idx", "true is not supported");
  }
  return decoder.finish();
}

nlohmann::json config_from_gguf(const files::GgufFile& file) {
  const files::JsonReader metadata(file.config(), file.path().string());
  nlohmann::json config = {
      {"architectures", {"GPT2LMHeadModel"}},
      {"model_type", "gpt2"},
      {"activation_function", "gelu_new"},
      {"n_layer", metadata.size("gpt2.block_count")},
      {"n_embd", metadata.size("gpt2.embedding_length")},
      {"n_head", metadata.size("gpt2.attention.head_count")},
      {"n_inner", metadata.size("gpt2.feed_forward_length")},
      {"n_positions", metadata.size("gpt2.context_length")},
      {"vocab_size", gguf_vocab_size(file)},
      {"layer_norm_epsilon", metadata.number("gpt2.attention.layer_norm_epsilon")},
      {"tie_word_embeddings", !file.contains("output.weight")},
  };
  copy_token_ids(file, config);
  return config;
}

}  // namespace
}  // namespace gpt2

constinit const Architecture kGpt2 = {
    .model_type = "gpt2",
    .gguf_architecture = "gpt2",
    .names = gpt2::kNames,
    .fused = gpt2::kFused,
    .describe = gpt2::describe,
    .config_from_gguf = gpt2::config_from_gguf,
    .prefix = "transformer.",
    .other_prefixes = gpt2::kOtherPrefixes,
    .transposed_linears = true,
};

}  // namespace ballast::model
