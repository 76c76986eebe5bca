// BERT: an encoder with norms after the residual, token types and a head that predicts masked words. Encoders of texts
// are published without the head and without the first part of all tensor names. ELECTRA has a head of another name,
// and often a narrow embedding that is projected. Jina BERT (arXiv:2310.19923) has ALiBi instead of positions and gated
// MLPs.
#include <array>
#include <utility>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/gguf_config.h"

namespace ballast::model {

namespace bert {
namespace {

constexpr std::array<TensorNames, 23> kNames{{
    {Role::kEmbedding, "bert.embeddings.word_embeddings", "token_embd"},
    {Role::kPositionEmbedding, "bert.embeddings.position_embeddings", "position_embd"},
    {Role::kTokenTypeEmbedding, "bert.embeddings.token_type_embeddings", "token_types"},
    {Role::kEmbeddingNorm, "bert.embeddings.LayerNorm", "token_embd_norm"},
    {Role::kHeadTransform, "cls.predictions.transform.dense", ""},
    {Role::kHeadNorm, "cls.predictions.transform.LayerNorm", ""},
    {Role::kHead, "cls.predictions.decoder", ""},
    // If a checkpoint has both, the first is used. They differ only if the head is not the embedding.
    {Role::kHeadBias, "cls.predictions.decoder.bias", ""},
    {Role::kHeadBias, "cls.predictions.bias", ""},
    {Role::kClassifierTransform, "bert.pooler.dense", ""},
    {Role::kClassifier, "classifier", ""},
    {Role::kQuery, "bert.encoder.layer.{}.attention.self.query", "blk.{}.attn_q"},
    {Role::kKey, "bert.encoder.layer.{}.attention.self.key", "blk.{}.attn_k"},
    {Role::kValue, "bert.encoder.layer.{}.attention.self.value", "blk.{}.attn_v"},
    {Role::kAttentionOutput, "bert.encoder.layer.{}.attention.output.dense", "blk.{}.attn_output"},
    {Role::kAttentionNorm, "bert.encoder.layer.{}.attention.output.LayerNorm", "blk.{}.attn_output_norm"},
    // The names with "mlp" are Jina BERT's.
    {Role::kGate, "bert.encoder.layer.{}.mlp.gate", ""},
    {Role::kUp, "bert.encoder.layer.{}.intermediate.dense", "blk.{}.ffn_up"},
    {Role::kUp, "bert.encoder.layer.{}.mlp.up", ""},
    {Role::kDown, "bert.encoder.layer.{}.output.dense", "blk.{}.ffn_down"},
    {Role::kDown, "bert.encoder.layer.{}.mlp.wo", ""},
    {Role::kMlpNorm, "bert.encoder.layer.{}.output.LayerNorm", "blk.{}.layer_output_norm"},
    {Role::kMlpNorm, "bert.encoder.layer.{}.mlp.layernorm", ""},
}};

constexpr std::array<TensorNames, 20> kElectraNames{{
    {Role::kEmbedding, "electra.embeddings.word_embeddings", ""},
    {Role::kPositionEmbedding, "electra.embeddings.position_embeddings", ""},
    {Role::kTokenTypeEmbedding, "electra.embeddings.token_type_embeddings", ""},
    {Role::kEmbeddingNorm, "electra.embeddings.LayerNorm", ""},
    {Role::kEmbeddingProjection, "electra.embeddings_project", ""},
    {Role::kHeadTransform, "generator_predictions.dense", ""},
    {Role::kHeadNorm, "generator_predictions.LayerNorm", ""},
    {Role::kHead, "generator_lm_head", ""},
    {Role::kHeadBias, "generator_lm_head.bias", ""},
    {Role::kClassifierTransform, "classifier.dense", ""},
    {Role::kClassifier, "classifier.out_proj", ""},
    {Role::kClassifier, "classifier", ""},
    {Role::kQuery, "electra.encoder.layer.{}.attention.self.query", ""},
    {Role::kKey, "electra.encoder.layer.{}.attention.self.key", ""},
    {Role::kValue, "electra.encoder.layer.{}.attention.self.value", ""},
    {Role::kAttentionOutput, "electra.encoder.layer.{}.attention.output.dense", ""},
    {Role::kAttentionNorm, "electra.encoder.layer.{}.attention.output.LayerNorm", ""},
    {Role::kUp, "electra.encoder.layer.{}.intermediate.dense", ""},
    {Role::kDown, "electra.encoder.layer.{}.output.dense", ""},
    {Role::kMlpNorm, "electra.encoder.layer.{}.output.LayerNorm", ""},
}};

constexpr std::array kAttentionParts = {Role::kQuery, Role::kKey, Role::kValue};
constexpr std::array kMlpParts = {Role::kGate, Role::kUp};
constexpr std::array<FusedTensor, 2> kFused{
    {{"", "blk.{}.attn_qkv", kAttentionParts}, {"bert.encoder.layer.{}.mlp.gated_layers", "", kMlpParts}}};

constexpr std::string_view kAlibi = "alibi";

ModelSpec finish(const files::JsonReader& config, DecoderConfig encoder) {
  encoder.spec.norm.epsilon = config.positive("layer_norm_eps", 1e-12);
  encoder.spec.token_types = config.count("type_vocab_size", 2);
  encoder.attention = read_heads(config, "num_attention_heads", "num_attention_heads", encoder.spec.hidden_size);
  return encoder.finish();
}

/// Reads the activation of a gated MLP by the name that it has with its gate.
Activation read_gated_activation(const files::JsonReader& config) {
  constexpr std::string_view kField = "feed_forward_type";
  const std::string type = config.text(kField, "original");
  if (type == "geglu") return Activation::kGelu;
  if (type == "reglu") return Activation::kRelu;
  config.fail(kField, "'" + type + "' is not supported; supported: geglu, reglu");
}

ModelSpec describe_jina(const files::JsonReader& config) {
  DecoderConfig encoder = read_sizes(config, 512, true);
  const Activation masked_words = read_activation(config, "hidden_act", "gelu");
  make_bert_like(config, {.name = "JinaBert", .masked_words = masked_words}, encoder, kAlibi);
  encoder.spec.learned_positions = false;
  encoder.spec.biases.up = false;
  encoder.mlp.gated = true;
  encoder.mlp.activation = read_gated_activation(config);
  ModelSpec spec = finish(config, std::move(encoder));
  for_each_attention(spec, [](AttentionSpec& attention) { attention.alibi = true; });
  return spec;
}

ModelSpec describe(const files::JsonReader& config) {
  if (config.text("position_embedding_type", "absolute") == kAlibi) return describe_jina(config);
  DecoderConfig encoder = read_sizes(config, 512, true);
  encoder.mlp.activation = read_activation(config, "hidden_act", "gelu");
  // A checkpoint of pre-training has a head for the next sentence, too.
  make_bert_like(config, {.name = "Bert", .masked_words = encoder.mlp.activation, .pretraining = true}, encoder);
  return finish(config, std::move(encoder));
}

ModelSpec describe_electra(const files::JsonReader& config) {
  DecoderConfig encoder = read_sizes(config, 512, true);
  encoder.mlp.activation = read_activation(config, "hidden_act", "gelu");
  make_bert_like(config, {.name = "Electra", .masked_words = Activation::kGelu, .classifier = Activation::kGelu},
                 encoder);
  const std::size_t embedding = config.size("embedding_size", 128);
  if (embedding != encoder.spec.hidden_size) encoder.spec.embedding_size = embedding;
  return finish(config, std::move(encoder));
}

/// Converts the metadata of a GGUF. llama.cpp's converter writes the same for RoBERTa, whose positions it begins at 0,
/// and for DistilBERT, which has no token types. It writes no head.
nlohmann::json config_from_gguf(const files::GgufFile& file) {
  const GgufMetadata metadata(file, "bert");
  if (metadata.flag("attention.causal", false)) metadata.fail("attention.causal", "true is not supported");
  constexpr std::string_view kTypes = "token_types.weight";
  return {
      {"architectures", {"BertModel"}},
      {"model_type", "bert"},
      {"hidden_act", "gelu"},
      {"num_hidden_layers", metadata.layers()},
      {"hidden_size", metadata.size("embedding_length")},
      {"num_attention_heads", metadata.size("attention.head_count")},
      {"intermediate_size", metadata.size("feed_forward_length")},
      {"max_position_embeddings", metadata.size("context_length")},
      {"type_vocab_size", file.contains(kTypes) ? table_rows(file, kTypes) : 0},
      {"vocab_size", gguf_vocab_size(file)},
      {"layer_norm_eps", metadata.positive("attention.layer_norm_epsilon")},
  };
}

}  // namespace
}  // namespace bert

constinit const Architecture kBert = {
    .model_type = "bert",
    .gguf_architecture = "bert",
    .names = bert::kNames,
    .fused = bert::kFused,
    .describe = bert::describe,
    .config_from_gguf = bert::config_from_gguf,
    .prefix = "bert.",
    .other_prefixes = kNoPrefix,
};

constinit const Architecture kElectra = {
    .model_type = "electra",
    .names = bert::kElectraNames,
    .describe = bert::describe_electra,
    .prefix = "electra.",
    .other_prefixes = kNoPrefix,
};

}  // namespace ballast::model
