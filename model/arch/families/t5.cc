// T5 (arXiv:1910.10683) with mT5, ByT5, FLAN-T5 and UMT5: an encoder and a decoder whose only positions are biases of
// scores by distance, without a scale of the scores.
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/encoder_decoder_config.h"

namespace ballast::model {

namespace t5 {
namespace {

constexpr std::array<TensorNames, 18> kNames{{
    {Role::kEmbedding, "shared", ""},
    {Role::kEmbedding, "decoder.embed_tokens", ""},
    {Role::kEmbedding, "encoder.embed_tokens", ""},
    {Role::kFinalNorm, "decoder.final_layer_norm", ""},
    {Role::kHead, "lm_head", ""},
    {Role::kAttentionNorm, "encoder.block.{}.layer.0.layer_norm", ""},
    {Role::kQuery, "encoder.block.{}.layer.0.SelfAttention.q", ""},
    {Role::kKey, "encoder.block.{}.layer.0.SelfAttention.k", ""},
    {Role::kValue, "encoder.block.{}.layer.0.SelfAttention.v", ""},
    // The second name is that of checkpoints, of which most have one for all blocks, in the first.
    {Role::kRelativeBias, "encoder.block.{}.layer.0.SelfAttention.relative_attention_bias.weight", ""},
    {Role::kRelativeBias, "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", ""},
    {Role::kAttentionOutput, "encoder.block.{}.layer.0.SelfAttention.o", ""},
    {Role::kMlpNorm, "encoder.block.{}.layer.1.layer_norm", ""},
    {Role::kGate, "encoder.block.{}.layer.1.DenseReluDense.wi_0", ""},
    {Role::kUp, "encoder.block.{}.layer.1.DenseReluDense.wi_1", ""},
    {Role::kUp, "encoder.block.{}.layer.1.DenseReluDense.wi", ""},
    {Role::kDown, "encoder.block.{}.layer.1.DenseReluDense.wo", ""},
    {Role::kEncoderNorm, "encoder.final_layer_norm", ""},
}};

constexpr std::array<TensorNames, 7> kDecoderNames{{
    {Role::kAttentionNorm, "decoder.block.{}.layer.0.layer_norm", ""},
    {Role::kQuery, "decoder.block.{}.layer.0.SelfAttention.q", ""},
    {Role::kKey, "decoder.block.{}.layer.0.SelfAttention.k", ""},
    {Role::kValue, "decoder.block.{}.layer.0.SelfAttention.v", ""},
    {Role::kRelativeBias, "decoder.block.{}.layer.0.SelfAttention.relative_attention_bias.weight", ""},
    {Role::kRelativeBias, "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", ""},
    {Role::kAttentionOutput, "decoder.block.{}.layer.0.SelfAttention.o", ""},
}};

constexpr std::array<TensorNames, 10> kCrossNames{{
    {Role::kAttentionNorm, "decoder.block.{}.layer.1.layer_norm", ""},
    {Role::kQuery, "decoder.block.{}.layer.1.EncDecAttention.q", ""},
    {Role::kKey, "decoder.block.{}.layer.1.EncDecAttention.k", ""},
    {Role::kValue, "decoder.block.{}.layer.1.EncDecAttention.v", ""},
    {Role::kAttentionOutput, "decoder.block.{}.layer.1.EncDecAttention.o", ""},
    {Role::kMlpNorm, "decoder.block.{}.layer.2.layer_norm", ""},
    {Role::kGate, "decoder.block.{}.layer.2.DenseReluDense.wi_0", ""},
    {Role::kUp, "decoder.block.{}.layer.2.DenseReluDense.wi_1", ""},
    {Role::kUp, "decoder.block.{}.layer.2.DenseReluDense.wi", ""},
    {Role::kDown, "decoder.block.{}.layer.2.DenseReluDense.wo", ""},
}};

/// Reads "relu" or "gated-gelu". The gelu of "gated-gelu" is its approximation by tanh, as in the original.
MlpSpec read_mlp(const files::JsonReader& config, std::string_view by_default) {
  constexpr std::string_view kField = "feed_forward_proj";
  constexpr std::string_view kGated = "gated-";
  const std::string form = config.text(kField, by_default);
  MlpSpec mlp = {.size = config.size("d_ff"), .gated = form.starts_with(kGated)};
  const std::string activation = form.substr(mlp.gated ? kGated.size() : 0);
  if (form == "gated-gelu" || activation == "gelu_new") {
    mlp.activation = Activation::kGeluTanh;
  } else if (activation == "gelu") {
    mlp.activation = Activation::kGelu;
  } else if (activation == "relu") {
    mlp.activation = Activation::kRelu;
  } else if (activation == "silu") {
    mlp.activation = Activation::kSilu;
  } else {
    config.fail(kField, "'" + form + "' is not supported; supported: relu, gelu, gelu_new, silu, each also as gated-");
  }
  return mlp;
}

/// Returns the factor on logits of the first T5, whose head is the embedding; 1 in its successors.
double read_logit_scale(const files::JsonReader& config, std::size_t hidden_size) {
  const bool scales = config.flag("scale_decoder_outputs", config.flag("tie_word_embeddings", true));
  return scales ? 1.0 / std::sqrt(static_cast<double>(hidden_size)) : 1.0;
}

/// Returns whether the checkpoint has the encoder alone: FAMILYEncoderModel.
bool is_encoder_alone(const files::JsonReader& config, std::string_view family) {
  constexpr std::string_view kField = "architectures";
  return config.has(kField) &&
         config.at(kField).strings() == std::vector<std::string>{std::string(family) + "EncoderModel"};
}

ModelSpec describe_as(const files::JsonReader& config, std::string_view family, std::string_view mlp_by_default) {
  // Positions have no end: the number is the length of the texts in the training, where it is known.
  constexpr std::size_t kContext = 2048;
  const bool alone = is_encoder_alone(config, family);
  if (!alone) check_class(config, std::string(family) + "ForConditionalGeneration");
  ModelSpec spec;
  spec.hidden_size = config.size("d_model");
  spec.vocab_size = config.size("vocab_size");
  spec.context_length = config.size("n_positions", kContext);
  spec.norm.epsilon = config.positive("layer_norm_epsilon", 1e-6);
  HalfConfig half;
  half.blocks = read_layer_count(config, "num_layers");
  half.mlp = read_mlp(config, mlp_by_default);
  half.attention = read_heads(config, "num_heads", "num_heads", spec.hidden_size, "d_kv");
  half.attention.scale = 1.0;
  half.attention.relative_bias = RelativeBiasSpec{.buckets = config.size("relative_attention_num_buckets", 32),
                                                  .reach = config.size("relative_attention_max_distance", 128)};
  const RelativeBiasSpec& bias = *half.attention.relative_bias;
  if (bias.buckets % 4 != 0 || bias.reach <= bias.buckets / 2) {
    config.fail("relative_attention_num_buckets",
                "must be a multiple of 4 and less than twice relative_attention_max_distance");
  }
  constexpr std::size_t kMostReach = 65536;
  if (bias.reach > kMostReach) {
    config.fail("relative_attention_max_distance", "must be at most " + std::to_string(kMostReach));
  }
  if (alone) return encoder_alone(spec, half);
  spec.encoder = EncoderSpec{.start_token = read_start_token(config, 0)};
  HalfConfig decoder = half;
  if (config.has("num_decoder_layers")) decoder.blocks = read_layer_count(config, "num_decoder_layers");
  decoder.attention.relative_bias->backwards = true;
  return with_halves(spec, half, decoder);
}

}  // namespace
}  // namespace t5

constinit const Architecture kT5 = {
    .model_type = "t5",
    .names = t5::kNames,
    .decoder_names = t5::kDecoderNames,
    .cross_names = t5::kCrossNames,
    .describe =
        [](const files::JsonReader& config) {
          ModelSpec spec = t5::describe_as(config, "T5", "relu");
          spec.logit_scale = t5::read_logit_scale(config, spec.hidden_size);
          return spec;
        },
};

constinit const Architecture kMt5 = {
    .model_type = "mt5",
    .names = t5::kNames,
    .decoder_names = t5::kDecoderNames,
    .cross_names = t5::kCrossNames,
    .describe = [](const files::JsonReader& config) { return t5::describe_as(config, "MT5", "gated-gelu"); },
};

constinit const Architecture kUmt5 = {
    .model_type = "umt5",
    .names = t5::kNames,
    .decoder_names = t5::kDecoderNames,
    .cross_names = t5::kCrossNames,
    .describe =
        [](const files::JsonReader& config) {
          ModelSpec spec = t5::describe_as(config, "UMT5", "gated-gelu");
          spec.logit_scale = t5::read_logit_scale(config, spec.hidden_size);
          return spec;
        },
};

}  // namespace ballast::model
