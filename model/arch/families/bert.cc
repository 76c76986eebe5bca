// BERT: an encoder with norms after the residual, token types and a head that restores masked words, or, as encoders of
// texts are published, without a head and the beginning of all names.
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace {

constexpr std::array<TensorNames, 17> kNames{{
    {Role::kEmbedding, "bert.embeddings.word_embeddings", ""},
    {Role::kPositionEmbedding, "bert.embeddings.position_embeddings", ""},
    {Role::kTokenTypeEmbedding, "bert.embeddings.token_type_embeddings", ""},
    {Role::kEmbeddingNorm, "bert.embeddings.LayerNorm", ""},
    {Role::kHeadTransform, "cls.predictions.transform.dense", ""},
    {Role::kHeadNorm, "cls.predictions.transform.LayerNorm", ""},
    {Role::kHead, "cls.predictions.decoder", ""},
    {Role::kHeadBias, "cls.predictions.bias", ""},
    {Role::kHeadBias, "cls.predictions.decoder.bias", ""},
    {Role::kQuery, "bert.encoder.layer.{}.attention.self.query", ""},
    {Role::kKey, "bert.encoder.layer.{}.attention.self.key", ""},
    {Role::kValue, "bert.encoder.layer.{}.attention.self.value", ""},
    {Role::kAttentionOutput, "bert.encoder.layer.{}.attention.output.dense", ""},
    {Role::kAttentionNorm, "bert.encoder.layer.{}.attention.output.LayerNorm", ""},
    {Role::kUp, "bert.encoder.layer.{}.intermediate.dense", ""},
    {Role::kDown, "bert.encoder.layer.{}.output.dense", ""},
    {Role::kMlpNorm, "bert.encoder.layer.{}.output.LayerNorm", ""},
}};

constexpr std::array<std::string_view, 1> kNoPrefix = {""};

bool is_headless(const files::JsonReader& config) {
  if (!config.has("architectures")) return false;
  const std::vector<std::string> classes = config.at("architectures").strings();
  return classes.size() == 1 && classes.front() == "BertModel";
}

ModelSpec describe(const files::JsonReader& config) {
  DecoderConfig encoder = read_sizes(config, 512, true);
  ModelSpec& spec = encoder.spec;
  spec.norm = {.kind = NormSpec::Kind::kLayer, .epsilon = config.positive("layer_norm_eps", 1e-12), .bias = true};
  spec.layout = BlockLayout::kPostNorm;
  spec.causal = false;
  spec.learned_positions = true;
  encoder.mlp.activation = read_activation(config, "hidden_act", "gelu");
  encoder.mlp.gated = false;
  spec.biases = {.query = true, .key = true, .value = true, .attention_output = true, .up = true, .down = true};
  spec.token_types = config.size("type_vocab_size", 2);
  spec.embedding_norm = true;
  spec.has_head = !is_headless(config);
  if (!spec.has_head) spec.tied_embeddings = true;
  spec.biases.head = spec.has_head;
  if (spec.has_head) spec.head_transform = encoder.mlp.activation;
  spec.biases.head_transform = spec.has_head;
  encoder.attention = read_heads(config, "num_attention_heads", "num_attention_heads", spec.hidden_size);
  if (config.flag("is_decoder", false)) config.fail("is_decoder", "true is not supported");
  const std::string positions = config.text("position_embedding_type", "absolute");
  if (positions != "absolute") {
    config.fail("position_embedding_type", "'" + positions + "' is not supported; supported: absolute");
  }
  return encoder.finish();
}

}  // namespace

constinit const Architecture kBert = {
    .model_type = "bert",
    .names = kNames,
    .describe = describe,
    .prefix = "bert.",
    .other_prefixes = kNoPrefix,
};

}  // namespace ballast::model
