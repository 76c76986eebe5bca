// DistilBERT: BERT without token types, with names and configuration fields of its own.
#include <array>
#include <string_view>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace distilbert {
namespace {

constexpr std::array<TensorNames, 17> kNames{{
    {Role::kEmbedding, "distilbert.embeddings.word_embeddings", ""},
    {Role::kPositionEmbedding, "distilbert.embeddings.position_embeddings", ""},
    {Role::kEmbeddingNorm, "distilbert.embeddings.LayerNorm", ""},
    {Role::kHeadTransform, "vocab_transform", ""},
    {Role::kHeadNorm, "vocab_layer_norm", ""},
    {Role::kHead, "vocab_projector", ""},
    {Role::kHeadBias, "vocab_projector.bias", ""},
    {Role::kClassifierTransform, "pre_classifier", ""},
    {Role::kClassifier, "classifier", ""},
    {Role::kQuery, "distilbert.transformer.layer.{}.attention.q_lin", ""},
    {Role::kKey, "distilbert.transformer.layer.{}.attention.k_lin", ""},
    {Role::kValue, "distilbert.transformer.layer.{}.attention.v_lin", ""},
    {Role::kAttentionOutput, "distilbert.transformer.layer.{}.attention.out_lin", ""},
    {Role::kAttentionNorm, "distilbert.transformer.layer.{}.sa_layer_norm", ""},
    {Role::kUp, "distilbert.transformer.layer.{}.ffn.lin1", ""},
    {Role::kDown, "distilbert.transformer.layer.{}.ffn.lin2", ""},
    {Role::kMlpNorm, "distilbert.transformer.layer.{}.output_layer_norm", ""},
}};

ModelSpec describe(const files::JsonReader& config) {
  DecoderConfig encoder;
  ModelSpec& spec = encoder.spec;
  encoder.layers = read_layer_count(config, "n_layers");
  spec.hidden_size = config.size("dim");
  spec.vocab_size = config.size("vocab_size");
  spec.context_length = config.size("max_position_embeddings", 512);
  spec.tied_embeddings = config.flag("tie_word_embeddings", true);
  encoder.mlp.size = config.size("hidden_dim");
  encoder.mlp.activation = read_activation(config, "activation", "gelu");
  make_bert_like(
      config, {.name = "DistilBert", .masked_words = encoder.mlp.activation, .classifier = Activation::kRelu}, encoder);
  spec.norm.epsilon = 1e-12;
  encoder.attention = read_heads(config, "n_heads", "n_heads", spec.hidden_size);
  return encoder.finish();
}

}  // namespace
}  // namespace distilbert

constinit const Architecture kDistilbert = {
    .model_type = "distilbert",
    .names = distilbert::kNames,
    .describe = distilbert::describe,
    .prefix = "distilbert.",
    .other_prefixes = kNoPrefix,
};

}  // namespace ballast::model
