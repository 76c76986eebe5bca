// RoBERTa, XLM-RoBERTa and CamemBERT: BERT with another head's name and positions that begin after those of padding.
// MPNet: the same with biases of scores by distance, which all layers share.
#include <array>
#include <string>
#include <string_view>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace roberta {
namespace {

constexpr std::array<TensorNames, 20> kNames{{
    {Role::kEmbedding, "roberta.embeddings.word_embeddings", ""},
    {Role::kPositionEmbedding, "roberta.embeddings.position_embeddings", ""},
    {Role::kTokenTypeEmbedding, "roberta.embeddings.token_type_embeddings", ""},
    {Role::kEmbeddingNorm, "roberta.embeddings.LayerNorm", ""},
    {Role::kHeadTransform, "lm_head.dense", ""},
    {Role::kHeadNorm, "lm_head.layer_norm", ""},
    {Role::kHead, "lm_head.decoder", ""},
    {Role::kHeadBias, "lm_head.bias", ""},
    {Role::kHeadBias, "lm_head.decoder.bias", ""},
    {Role::kClassifierTransform, "classifier.dense", ""},
    {Role::kClassifier, "classifier.out_proj", ""},
    {Role::kClassifier, "classifier", ""},
    {Role::kQuery, "roberta.encoder.layer.{}.attention.self.query", ""},
    {Role::kKey, "roberta.encoder.layer.{}.attention.self.key", ""},
    {Role::kValue, "roberta.encoder.layer.{}.attention.self.value", ""},
    {Role::kAttentionOutput, "roberta.encoder.layer.{}.attention.output.dense", ""},
    {Role::kAttentionNorm, "roberta.encoder.layer.{}.attention.output.LayerNorm", ""},
    {Role::kUp, "roberta.encoder.layer.{}.intermediate.dense", ""},
    {Role::kDown, "roberta.encoder.layer.{}.output.dense", ""},
    {Role::kMlpNorm, "roberta.encoder.layer.{}.output.LayerNorm", ""},
}};

constexpr std::array<TensorNames, 21> kMpnetNames{{
    {Role::kEmbedding, "mpnet.embeddings.word_embeddings", ""},
    {Role::kPositionEmbedding, "mpnet.embeddings.position_embeddings", ""},
    {Role::kEmbeddingNorm, "mpnet.embeddings.LayerNorm", ""},
    {Role::kHeadTransform, "lm_head.dense", ""},
    {Role::kHeadNorm, "lm_head.layer_norm", ""},
    {Role::kHead, "lm_head.decoder", ""},
    {Role::kHeadBias, "lm_head.bias", ""},
    {Role::kHeadBias, "lm_head.decoder.bias", ""},
    {Role::kClassifierTransform, "classifier.dense", ""},
    {Role::kClassifier, "classifier.out_proj", ""},
    {Role::kClassifier, "classifier", ""},
    {Role::kQuery, "mpnet.encoder.layer.{}.attention.attn.q", ""},
    {Role::kKey, "mpnet.encoder.layer.{}.attention.attn.k", ""},
    {Role::kValue, "mpnet.encoder.layer.{}.attention.attn.v", ""},
    {Role::kAttentionOutput, "mpnet.encoder.layer.{}.attention.attn.o", ""},
    // The second name is that of checkpoints, which have one for all layers.
    {Role::kRelativeBias, "mpnet.encoder.layer.{}.attention.relative_attention_bias.weight", ""},
    {Role::kRelativeBias, "mpnet.encoder.relative_attention_bias.weight", ""},
    {Role::kAttentionNorm, "mpnet.encoder.layer.{}.attention.LayerNorm", ""},
    {Role::kUp, "mpnet.encoder.layer.{}.intermediate.dense", ""},
    {Role::kDown, "mpnet.encoder.layer.{}.output.dense", ""},
    {Role::kMlpNorm, "mpnet.encoder.layer.{}.output.LayerNorm", ""},
}};

/// Reads a model whose classes have this name. Its positions begin after the row with the number of the padding token.
DecoderConfig read_encoder(const files::JsonReader& config, const std::string& name, std::size_t padding_token) {
  DecoderConfig encoder = read_sizes(config, 512, true);
  encoder.mlp.activation = read_activation(config, "hidden_act", "gelu");
  make_bert_like(config, {.name = name, .masked_words = Activation::kGelu}, encoder);
  ModelSpec& spec = encoder.spec;
  spec.norm.epsilon = config.positive("layer_norm_eps", 1e-12);
  encoder.attention = read_heads(config, "num_attention_heads", "num_attention_heads", spec.hidden_size);
  spec.first_position = padding_token + 1;
  if (spec.context_length <= spec.first_position) {
    config.fail("max_position_embeddings",
                "leaves no position after the " + std::to_string(spec.first_position) + " of padding");
  }
  spec.context_length -= spec.first_position;
  return encoder;
}

ModelSpec describe_as(const files::JsonReader& config, const std::string& name) {
  DecoderConfig encoder = read_encoder(config, name, config.count("pad_token_id", 1));
  encoder.spec.token_types = config.count("type_vocab_size", 2);
  return encoder.finish();
}

ModelSpec describe_mpnet(const files::JsonReader& config) {
  // The family's code does not read these numbers either, nor the id of padding.
  constexpr RelativeBiasSpec kBias = {.buckets = 32, .reach = 128};
  constexpr std::string_view kBuckets = "relative_attention_num_buckets";
  DecoderConfig encoder = read_encoder(config, "MPNet", 1);
  if (config.size(kBuckets, kBias.buckets) != kBias.buckets) config.fail(kBuckets, "is not 32");
  encoder.attention.relative_bias = kBias;
  return encoder.finish();
}

}  // namespace
}  // namespace roberta

constinit const Architecture kRoberta = {
    .model_type = "roberta",
    .names = roberta::kNames,
    .describe = [](const files::JsonReader& config) { return roberta::describe_as(config, "Roberta"); },
    .prefix = "roberta.",
    .other_prefixes = kNoPrefix,
};

constinit const Architecture kXlmRoberta = {
    .model_type = "xlm-roberta",
    .names = roberta::kNames,
    .describe = [](const files::JsonReader& config) { return roberta::describe_as(config, "XLMRoberta"); },
    .prefix = "roberta.",
    .other_prefixes = kNoPrefix,
};

constinit const Architecture kCamembert = {
    .model_type = "camembert",
    .names = roberta::kNames,
    .describe = [](const files::JsonReader& config) { return roberta::describe_as(config, "Camembert"); },
    .prefix = "roberta.",
    .other_prefixes = kNoPrefix,
};

constinit const Architecture kMpnet = {
    .model_type = "mpnet",
    .names = roberta::kMpnetNames,
    .describe = roberta::describe_mpnet,
    .prefix = "mpnet.",
    .other_prefixes = kNoPrefix,
};

}  // namespace ballast::model
