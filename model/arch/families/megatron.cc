// Megatron-LM's GPT (Megatron-core's names and arguments): queries, keys and values of a group side by side, gate and
// up in one matrix; norms may be part of the linear after them, as Transformer Engine keeps them.
#include <array>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/rope_config.h"

namespace ballast::model {

namespace megatron {
namespace {

constexpr std::array<TensorNames, 17> kNames{{
    {Role::kEmbedding, "embedding.word_embeddings", ""},
    {Role::kPositionEmbedding, "embedding.position_embeddings", ""},
    {Role::kFinalNorm, "decoder.final_layernorm", ""},
    {Role::kHead, "output_layer", ""},
    {Role::kAttentionNorm, "decoder.layers.{}.input_layernorm", ""},
    {Role::kAttentionNorm, "decoder.layers.{}.self_attention.linear_qkv.layer_norm_", ""},
    {Role::kQuery, "decoder.layers.{}.self_attention.linear_q", ""},
    {Role::kKey, "decoder.layers.{}.self_attention.linear_k", ""},
    {Role::kValue, "decoder.layers.{}.self_attention.linear_v", ""},
    {Role::kQueryNorm, "decoder.layers.{}.self_attention.q_layernorm", ""},
    {Role::kKeyNorm, "decoder.layers.{}.self_attention.k_layernorm", ""},
    {Role::kAttentionOutput, "decoder.layers.{}.self_attention.linear_proj", ""},
    {Role::kMlpNorm, "decoder.layers.{}.pre_mlp_layernorm", ""},
    {Role::kMlpNorm, "decoder.layers.{}.mlp.linear_fc1.layer_norm_", ""},
    {Role::kGate, "decoder.layers.{}.mlp.linear_gate", ""},
    {Role::kUp, "decoder.layers.{}.mlp.linear_up", ""},
    {Role::kDown, "decoder.layers.{}.mlp.linear_fc2", ""},
}};

// A plain MLP has no gate: the gate's part then has no rows, and the whole matrix is `up`.
constexpr std::array kAttentionParts = {Role::kQuery, Role::kKey, Role::kValue};
constexpr std::array kMlpParts = {Role::kGate, Role::kUp};
constexpr std::array<FusedTensor, 2> kFused{{
    {"decoder.layers.{}.self_attention.linear_qkv", "", kAttentionParts, FusedTensor::Runs::kKeyValueHeads},
    {"decoder.layers.{}.mlp.linear_fc1", "", kMlpParts, FusedTensor::Runs::kOne},
}};

void read_positions(const files::JsonReader& config, DecoderConfig& decoder) {
  const std::string type = config.text("position_embedding_type", "learned_absolute");
  if (type == "learned_absolute") {
    decoder.spec.learned_positions = true;
  } else if (type == "rope") {
    decoder.attention.rope = read_rope(config, decoder.attention.head_size);
  } else if (type != "none") {
    config.fail("position_embedding_type", "'" + type + "' is not supported; supported: learned_absolute, rope, none");
  }
}

// Refuses arguments that change the result and that ballast does not support.
void refuse_others(const files::JsonReader& config) {
  for (const char* flag : {"rotary_interleaved", "squared_relu", "use_rope_scaling", "multi_latent_attention"}) {
    if (config.flag(flag, false)) config.fail(flag, "true is not supported");
  }
  for (const char* field : {"rotary_seq_len_interpolation_factor", "window_size", "num_moe_experts"}) {
    if (config.has(field)) config.fail(field, config.json().at(field).dump() + " is not supported");
  }
}

// Reads a flag by Megatron-LM's argument or by Megatron-core's name for it.
bool either(const files::JsonReader& config, std::string_view argument, std::string_view core_name) {
  return config.flag(argument, config.flag(core_name, false));
}

ModelSpec describe(const files::JsonReader& config) {
  refuse_others(config);
  DecoderConfig decoder;
  ModelSpec& spec = decoder.spec;
  decoder.layers = read_layer_count(config, "num_layers");
  spec.hidden_size = config.size("hidden_size");
  spec.vocab_size = config.size("vocab_size");
  spec.context_length = config.size("max_position_embeddings");
  decoder.mlp.size = config.size("ffn_hidden_size", 4 * spec.hidden_size);
  spec.tied_embeddings = !config.flag("untie_embeddings_and_output_weights", false);
  decoder.attention = read_heads(config, "num_attention_heads", "num_query_groups", spec.hidden_size);
  if (config.has("kv_channels") && config.size("kv_channels") != decoder.attention.head_size) {
    config.fail("kv_channels", "must be hidden_size / num_attention_heads");
  }
  read_positions(config, decoder);

  const std::string norm = config.text("normalization", "LayerNorm");
  if (norm != "LayerNorm" && norm != "RMSNorm") {
    config.fail("normalization", "'" + norm + "' is not supported; supported: LayerNorm, RMSNorm");
  }
  spec.norm.kind = norm == "RMSNorm" ? NormSpec::Kind::kRms : NormSpec::Kind::kLayer;
  spec.norm.bias = norm == "LayerNorm";
  spec.norm.epsilon = config.positive("layernorm_epsilon", 1e-5);
  spec.norm.gain_offset = either(config, "apply_layernorm_1p", "layernorm_zero_centered_gamma") ? 1.0 : 0.0;
  if (config.flag("qk_layernorm", false)) decoder.attention.query_key_norm = HeadNormSpec{};
  if (decoder.attention.query_key_norm && spec.norm.kind != NormSpec::Kind::kRms) {
    config.fail("qk_layernorm", "true is only supported with normalization 'RMSNorm'");
  }

  decoder.mlp.gated = either(config, "swiglu", "gated_linear_unit");
  // The fused kernel computes GELU by tanh.
  const bool by_tanh = config.flag("openai_gelu", false) || config.flag("bias_gelu_fusion", false);
  decoder.mlp.activation = decoder.mlp.gated ? Activation::kSilu : by_tanh ? Activation::kGeluTanh : Activation::kGelu;
  const bool linear_bias = config.flag("add_bias_linear", true);
  const bool attention_bias = linear_bias || config.flag("add_qkv_bias", false);
  spec.biases = {.query = attention_bias,
                 .key = attention_bias,
                 .value = attention_bias,
                 .attention_output = linear_bias,
                 .up = linear_bias,
                 .down = linear_bias};
  return decoder.finish();
}

}  // namespace
}  // namespace megatron

constinit const Architecture kMegatron = {
    .model_type = "megatron",
    .names = megatron::kNames,
    .fused = megatron::kFused,
    .describe = megatron::describe,
};

}  // namespace ballast::model
