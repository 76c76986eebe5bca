// DeBERTa v2 and v3: BERT with disentangled attention instead of positions in its input.
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace deberta {
namespace {

constexpr std::array<TensorNames, 22> kNames{{
    {Role::kEmbedding, "deberta.embeddings.word_embeddings", ""},
    {Role::kPositionEmbedding, "deberta.embeddings.position_embeddings", ""},
    {Role::kTokenTypeEmbedding, "deberta.embeddings.token_type_embeddings", ""},
    {Role::kEmbeddingNorm, "deberta.embeddings.LayerNorm", ""},
    {Role::kHeadTransform, "cls.predictions.transform.dense", ""},
    {Role::kHeadNorm, "cls.predictions.transform.LayerNorm", ""},
    {Role::kHead, "cls.predictions.decoder", ""},
    {Role::kHeadBias, "cls.predictions.bias", ""},
    {Role::kHeadBias, "cls.predictions.decoder.bias", ""},
    {Role::kClassifierTransform, "pooler.dense", ""},
    {Role::kClassifier, "classifier", ""},
    {Role::kQuery, "deberta.encoder.layer.{}.attention.self.query_proj", ""},
    {Role::kKey, "deberta.encoder.layer.{}.attention.self.key_proj", ""},
    {Role::kValue, "deberta.encoder.layer.{}.attention.self.value_proj", ""},
    {Role::kDistanceRows, "deberta.encoder.rel_embeddings.weight", ""},
    {Role::kDistanceRowsGain, "deberta.encoder.LayerNorm.weight", ""},
    {Role::kDistanceRowsBias, "deberta.encoder.LayerNorm.bias", ""},
    {Role::kAttentionOutput, "deberta.encoder.layer.{}.attention.output.dense", ""},
    {Role::kAttentionNorm, "deberta.encoder.layer.{}.attention.output.LayerNorm", ""},
    {Role::kUp, "deberta.encoder.layer.{}.intermediate.dense", ""},
    {Role::kDown, "deberta.encoder.layer.{}.output.dense", ""},
    {Role::kMlpNorm, "deberta.encoder.layer.{}.output.LayerNorm", ""},
}};

constexpr const char* kKinds = "pos_att_type";

/// Returns "c2p" and the like, which are in a list or in one text.
std::vector<std::string> read_kinds(const files::JsonReader& config) {
  if (!config.has(kKinds)) return {};
  if (config.at(kKinds).json().is_array()) return config.at(kKinds).strings();
  std::vector<std::string> kinds = {""};
  for (const char letter : config.text(kKinds)) {
    if (letter == '|') {
      kinds.emplace_back();
    } else {
      kinds.back() += letter;
    }
  }
  return kinds;
}

DisentangledSpec read_disentangled(const files::JsonReader& config, std::size_t context) {
  // -1 stands for the default, or for none.
  const auto positive = [&](std::string_view field) -> std::size_t {
    return config.has(field) && config.number(field) > 0 ? config.size(field) : 0;
  };
  DisentangledSpec spec;
  const std::size_t reach = positive("max_relative_positions") > 0 ? positive("max_relative_positions") : context;
  const std::size_t buckets = positive("position_buckets");
  spec.span = buckets > 0 ? buckets : reach;
  spec.reach = buckets > 0 ? reach : 0;
  if (spec.reach > 0 && (spec.span < 4 || spec.reach < spec.span)) {
    config.fail("position_buckets", "must be 4 or more, and not above max_relative_positions");
  }
  for (const std::string& kind : read_kinds(config)) {
    if (kind != "c2p" && kind != "p2c") {
      config.fail(kKinds, "'" + kind + "' is not supported; supported: c2p, p2c");
    }
    (kind == "c2p" ? spec.keys_by_distance : spec.queries_by_distance) = true;
  }
  const bool any = spec.keys_by_distance || spec.queries_by_distance;
  if (any && !config.flag("share_att_key", false)) config.fail("share_att_key", "false is not supported");
  const std::string norm = config.text("norm_rel_ebd", "none");
  if (norm != "none" && norm != "layer_norm") config.fail("norm_rel_ebd", "must be 'none' or 'layer_norm'");
  spec.norm = norm == "layer_norm";
  return spec;
}

ModelSpec describe(const files::JsonReader& config) {
  DecoderConfig encoder = read_sizes(config, 512, true);
  ModelSpec& spec = encoder.spec;
  encoder.mlp.activation = read_activation(config, "hidden_act", "gelu");
  const Activation pooler = read_activation(config, "pooler_hidden_act", "gelu");
  make_bert_like(config, {.name = "DebertaV2", .masked_words = encoder.mlp.activation, .classifier = pooler}, encoder);
  spec.norm.epsilon = config.positive("layer_norm_eps", 1e-7);
  spec.learned_positions = config.flag("position_biased_input", true);
  spec.token_types = config.count("type_vocab_size", 0);
  if (config.has("embedding_size") && config.size("embedding_size") != spec.hidden_size) {
    config.fail("embedding_size", "is not the hidden size: projected embeddings are not supported");
  }
  if (config.count("conv_kernel_size", 0) > 0) config.fail("conv_kernel_size", "a convolution is not supported");
  encoder.attention =
      read_heads(config, "num_attention_heads", "num_attention_heads", spec.hidden_size, "attention_head_size");
  std::size_t parts = 1;
  if (config.flag("relative_attention", false)) {
    DisentangledSpec disentangled = read_disentangled(config, spec.context_length);
    disentangled.epsilon = spec.norm.epsilon;
    parts += (disentangled.keys_by_distance ? 1 : 0) + (disentangled.queries_by_distance ? 1 : 0);
    if (parts > 1) encoder.attention.disentangled = disentangled;
  }
  encoder.attention.scale /= std::sqrt(static_cast<double>(parts));
  return encoder.finish();
}

}  // namespace
}  // namespace deberta

constinit const Architecture kDebertaV2 = {
    .model_type = "deberta-v2",
    .names = deberta::kNames,
    .describe = deberta::describe,
    .prefix = "deberta.",
    .other_prefixes = kNoPrefix,
};

}  // namespace ballast::model
