// BART (arXiv:1910.13461) and its line: mBART, PEGASUS, Marian's translators, M2M-100 with NLLB-200. An encoder and a
// decoder with LayerNorms and biases, and positions that are added to the embedding.
#include <array>
#include <cmath>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/encoder_decoder_config.h"

namespace ballast::model {

namespace bart {
namespace {

constexpr std::array<TensorNames, 21> kNames{{
    {Role::kEmbedding, "model.shared", ""},
    {Role::kEmbedding, "model.decoder.embed_tokens", ""},
    {Role::kEmbedding, "model.encoder.embed_tokens", ""},
    {Role::kEmbedding, "lm_head", ""},
    {Role::kPositionEmbedding, "model.decoder.embed_positions", ""},
    {Role::kEncoderPositionEmbedding, "model.encoder.embed_positions", ""},
    {Role::kEmbeddingNorm, "model.decoder.layernorm_embedding", ""},
    {Role::kEncoderEmbeddingNorm, "model.encoder.layernorm_embedding", ""},
    {Role::kFinalNorm, "model.decoder.layer_norm", ""},
    {Role::kHead, "lm_head", ""},
    {Role::kHeadBias, "final_logits_bias", ""},
    {Role::kHeadBias, "lm_head.bias", ""},  // that a fold has made
    {Role::kAttentionNorm, "model.encoder.layers.{}.self_attn_layer_norm", ""},
    {Role::kQuery, "model.encoder.layers.{}.self_attn.q_proj", ""},
    {Role::kKey, "model.encoder.layers.{}.self_attn.k_proj", ""},
    {Role::kValue, "model.encoder.layers.{}.self_attn.v_proj", ""},
    {Role::kAttentionOutput, "model.encoder.layers.{}.self_attn.out_proj", ""},
    {Role::kMlpNorm, "model.encoder.layers.{}.final_layer_norm", ""},
    {Role::kUp, "model.encoder.layers.{}.fc1", ""},
    {Role::kDown, "model.encoder.layers.{}.fc2", ""},
    {Role::kEncoderNorm, "model.encoder.layer_norm", ""},
}};

constexpr std::array<TensorNames, 5> kDecoderNames{{
    {Role::kAttentionNorm, "model.decoder.layers.{}.self_attn_layer_norm", ""},
    {Role::kQuery, "model.decoder.layers.{}.self_attn.q_proj", ""},
    {Role::kKey, "model.decoder.layers.{}.self_attn.k_proj", ""},
    {Role::kValue, "model.decoder.layers.{}.self_attn.v_proj", ""},
    {Role::kAttentionOutput, "model.decoder.layers.{}.self_attn.out_proj", ""},
}};

constexpr std::array<TensorNames, 8> kCrossNames{{
    {Role::kAttentionNorm, "model.decoder.layers.{}.encoder_attn_layer_norm", ""},
    {Role::kQuery, "model.decoder.layers.{}.encoder_attn.q_proj", ""},
    {Role::kKey, "model.decoder.layers.{}.encoder_attn.k_proj", ""},
    {Role::kValue, "model.decoder.layers.{}.encoder_attn.v_proj", ""},
    {Role::kAttentionOutput, "model.decoder.layers.{}.encoder_attn.out_proj", ""},
    {Role::kMlpNorm, "model.decoder.layers.{}.final_layer_norm", ""},
    {Role::kUp, "model.decoder.layers.{}.fc1", ""},
    {Role::kDown, "model.decoder.layers.{}.fc2", ""},
}};

/// What distinguishes the families.
struct Family {
  enum class Positions {
    kLearned,
    kSinusoids,             ///< the slowest pair turns once less than one pair further would
    kSinusoidsToTheSlowest  ///< the last pair is the slowest
  };
  std::string_view name;  ///< of the class
  BlockLayout layout = BlockLayout::kPreNorm;
  Positions positions = Positions::kLearned;
  std::size_t first_position = 0;
  bool embedding_norm = false;
  bool scaled_embedding = false;  ///< by default
  bool logit_bias = true;
  std::string_view activation = "gelu";  ///< by default
  std::size_t start_token = 2;           ///< by default
};

HalfConfig read_half(const files::JsonReader& config, const std::string& half, const Family& family,
                     std::size_t hidden_size) {
  HalfConfig read;
  read.blocks = read_layer_count(config, half + "_layers");
  const std::string heads = half + "_attention_heads";
  read.attention = read_heads(config, heads, heads, hidden_size);
  read.mlp = {.size = config.size(half + "_ffn_dim"),
              .activation = read_activation(config, "activation_function", family.activation),
              .gated = false};
  return read;
}

ModelSpec describe(const files::JsonReader& config, const Family& family) {
  check_class(config, family.name);
  ModelSpec spec;
  spec.hidden_size = config.size("d_model");
  spec.vocab_size = config.size("vocab_size");
  spec.context_length = config.size("max_position_embeddings", 1024);
  spec.tied_embeddings = config.flag("tie_word_embeddings", true);
  spec.norm = {.kind = NormSpec::Kind::kLayer, .bias = true};
  spec.layout = family.layout;
  spec.learned_positions = family.positions == Family::Positions::kLearned;
  if (!spec.learned_positions) {
    if (spec.hidden_size % 2 != 0 || spec.hidden_size < 4) config.fail("d_model", "must be even");
    const bool to_slowest = family.positions == Family::Positions::kSinusoidsToTheSlowest;
    spec.sinusoids = SinusoidSpec{.steps = spec.hidden_size / 2 - (to_slowest ? 1 : 0)};
  }
  spec.first_position = family.first_position;
  spec.embedding_norm = family.embedding_norm;
  if (config.flag("scale_embedding", family.scaled_embedding)) {
    spec.embedding_scale = std::sqrt(static_cast<double>(spec.hidden_size));
  }
  spec.biases = {.query = true, .key = true, .value = true, .attention_output = true, .up = true, .down = true};
  spec.biases.head = family.logit_bias;
  spec.encoder = EncoderSpec{.start_token = read_start_token(config, family.start_token)};
  return with_halves(spec, read_half(config, "encoder", family, spec.hidden_size),
                     read_half(config, "decoder", family, spec.hidden_size));
}

ModelSpec describe_marian(const files::JsonReader& config) {
  if (!config.flag("share_encoder_decoder_embeddings", true)) {
    config.fail("share_encoder_decoder_embeddings", "false is not supported: both halves read one embedding");
  }
  return describe(config, {.name = "MarianMTModel",
                           .layout = BlockLayout::kPostNorm,
                           .positions = Family::Positions::kSinusoids,
                           .start_token = 58100});
}

}  // namespace
}  // namespace bart

constinit const Architecture kBart = {
    .model_type = "bart",
    .names = bart::kNames,
    .decoder_names = bart::kDecoderNames,
    .cross_names = bart::kCrossNames,
    .describe =
        [](const files::JsonReader& config) {
          return bart::describe(config, {.name = "BartForConditionalGeneration",
                                         .layout = BlockLayout::kPostNorm,
                                         .first_position = 2,
                                         .embedding_norm = true});
        },
};

constinit const Architecture kMbart = {
    .model_type = "mbart",
    .names = bart::kNames,
    .decoder_names = bart::kDecoderNames,
    .cross_names = bart::kCrossNames,
    .describe =
        [](const files::JsonReader& config) {
          return bart::describe(config,
                                {.name = "MBartForConditionalGeneration", .first_position = 2, .embedding_norm = true});
        },
};

constinit const Architecture kPegasus = {
    .model_type = "pegasus",
    .names = bart::kNames,
    .decoder_names = bart::kDecoderNames,
    .cross_names = bart::kCrossNames,
    .describe =
        [](const files::JsonReader& config) {
          return bart::describe(config, {.name = "PegasusForConditionalGeneration",
                                         .positions = bart::Family::Positions::kSinusoids,
                                         .start_token = 0});
        },
};

constinit const Architecture kMarian = {
    .model_type = "marian",
    .names = bart::kNames,
    .decoder_names = bart::kDecoderNames,
    .cross_names = bart::kCrossNames,
    .describe = bart::describe_marian,
};

constinit const Architecture kM2m100 = {
    .model_type = "m2m_100",
    .names = bart::kNames,
    .decoder_names = bart::kDecoderNames,
    .cross_names = bart::kCrossNames,
    .describe =
        [](const files::JsonReader& config) {
          return bart::describe(config, {.name = "M2M100ForConditionalGeneration",
                                         .positions = bart::Family::Positions::kSinusoidsToTheSlowest,
                                         .first_position = config.count("pad_token_id", 1) + 1,
                                         .scaled_embedding = true,
                                         .logit_bias = false,
                                         .activation = "relu"});
        },
};

}  // namespace ballast::model
