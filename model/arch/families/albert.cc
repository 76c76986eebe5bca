// ALBERT (arXiv:1909.11942): BERT with a narrow embedding that is projected, and one set of weights for all layers.
#include <array>
#include <string>
#include <string_view>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace albert {
namespace {

// The second name of a block's tensor is that of checkpoints, which have one for all layers. Converted models have one
// for each, because its inputs, and so its rounding, differ.
constexpr std::array<TensorNames, 28> kNames{{
    {Role::kEmbedding, "albert.embeddings.word_embeddings", ""},
    {Role::kPositionEmbedding, "albert.embeddings.position_embeddings", ""},
    {Role::kTokenTypeEmbedding, "albert.embeddings.token_type_embeddings", ""},
    {Role::kEmbeddingNorm, "albert.embeddings.LayerNorm", ""},
    {Role::kEmbeddingProjection, "albert.encoder.embedding_hidden_mapping_in", ""},
    {Role::kHeadTransform, "predictions.dense", ""},
    {Role::kHeadNorm, "predictions.LayerNorm", ""},
    {Role::kHead, "predictions.decoder", ""},
    {Role::kHeadBias, "predictions.bias", ""},
    {Role::kHeadBias, "predictions.decoder.bias", ""},
    {Role::kClassifierTransform, "albert.pooler", ""},
    {Role::kClassifier, "classifier", ""},
    {Role::kQuery, "albert.encoder.albert_layer_groups.{}.albert_layers.0.attention.query", ""},
    {Role::kQuery, "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.query", ""},
    {Role::kKey, "albert.encoder.albert_layer_groups.{}.albert_layers.0.attention.key", ""},
    {Role::kKey, "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.key", ""},
    {Role::kValue, "albert.encoder.albert_layer_groups.{}.albert_layers.0.attention.value", ""},
    {Role::kValue, "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.value", ""},
    {Role::kAttentionOutput, "albert.encoder.albert_layer_groups.{}.albert_layers.0.attention.dense", ""},
    {Role::kAttentionOutput, "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.dense", ""},
    {Role::kAttentionNorm, "albert.encoder.albert_layer_groups.{}.albert_layers.0.attention.LayerNorm", ""},
    {Role::kAttentionNorm, "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.LayerNorm", ""},
    {Role::kUp, "albert.encoder.albert_layer_groups.{}.albert_layers.0.ffn", ""},
    {Role::kUp, "albert.encoder.albert_layer_groups.0.albert_layers.0.ffn", ""},
    {Role::kDown, "albert.encoder.albert_layer_groups.{}.albert_layers.0.ffn_output", ""},
    {Role::kDown, "albert.encoder.albert_layer_groups.0.albert_layers.0.ffn_output", ""},
    {Role::kMlpNorm, "albert.encoder.albert_layer_groups.{}.albert_layers.0.full_layer_layer_norm", ""},
    {Role::kMlpNorm, "albert.encoder.albert_layer_groups.0.albert_layers.0.full_layer_layer_norm", ""},
}};

/// Throws Error unless all layers have the same weights, or each has its own.
void check_groups(const files::JsonReader& config, std::size_t layers) {
  constexpr std::string_view kGroups = "num_hidden_groups", kInner = "inner_group_num";
  const std::size_t groups = config.size(kGroups, 1);
  if (groups != 1 && groups != layers) {
    config.fail(kGroups, std::to_string(groups) + " is not supported; supported: 1, or as many as layers");
  }
  if (config.size(kInner, 1) != 1) config.fail(kInner, "is not 1");
}

ModelSpec describe(const files::JsonReader& config) {
  DecoderConfig encoder = read_sizes(config, 512, true);
  ModelSpec& spec = encoder.spec;
  check_groups(config, encoder.layers);
  encoder.mlp.activation = read_activation(config, "hidden_act", "gelu_new");
  make_bert_like(config, {.name = "Albert", .masked_words = encoder.mlp.activation, .pretraining = true}, encoder);
  spec.embedding_size = config.size("embedding_size", 128);
  spec.norm.epsilon = config.positive("layer_norm_eps", 1e-12);
  spec.token_types = config.count("type_vocab_size", 2);
  encoder.attention = read_heads(config, "num_attention_heads", "num_attention_heads", spec.hidden_size);
  return encoder.finish();
}

}  // namespace
}  // namespace albert

constinit const Architecture kAlbert = {
    .model_type = "albert",
    .names = albert::kNames,
    .describe = albert::describe,
    .prefix = "albert.",
    .other_prefixes = kNoPrefix,
};

}  // namespace ballast::model
