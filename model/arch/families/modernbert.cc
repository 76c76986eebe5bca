// ModernBERT: an encoder with rotation, gated MLPs and, in most layers, windows; its first block reads the embedding's
// norm and has no norm of its own there. With a head that predicts masked words, or without one, as encoders of texts
// are published.
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/rope_config.h"

namespace ballast::model {

namespace modernbert {
namespace {

constexpr std::array<TensorNames, 19> kNames{{
    {Role::kEmbedding, "model.embeddings.tok_embeddings", ""},
    {Role::kEmbeddingNorm, "model.embeddings.norm", ""},
    {Role::kFinalNorm, "model.final_norm", ""},
    {Role::kHeadTransform, "head.dense", ""},
    {Role::kHeadNorm, "head.norm", ""},
    {Role::kHead, "decoder", ""},
    {Role::kHeadBias, "decoder.bias", ""},
    {Role::kClassifierTransform, "head.dense", ""},
    {Role::kClassifierNorm, "head.norm", ""},
    {Role::kClassifier, "classifier", ""},
    {Role::kAttentionNorm, "model.layers.{}.attn_norm", ""},
    {Role::kQuery, "model.layers.{}.attn.q_proj", ""},
    {Role::kKey, "model.layers.{}.attn.k_proj", ""},
    {Role::kValue, "model.layers.{}.attn.v_proj", ""},
    {Role::kAttentionOutput, "model.layers.{}.attn.Wo", ""},
    {Role::kMlpNorm, "model.layers.{}.mlp_norm", ""},
    {Role::kGate, "model.layers.{}.mlp.gate_proj", ""},
    {Role::kUp, "model.layers.{}.mlp.up_proj", ""},
    {Role::kDown, "model.layers.{}.mlp.Wo", ""},
}};

constexpr std::array kAttentionParts = {Role::kQuery, Role::kKey, Role::kValue};
constexpr std::array kMlpParts = {Role::kGate, Role::kUp};
constexpr std::array<FusedTensor, 2> kFused{
    {{"model.layers.{}.attn.Wqkv", "", kAttentionParts}, {"model.layers.{}.mlp.Wi", "", kMlpParts}}};

void read_outputs(const files::JsonReader& config, ModelSpec& spec) {
  const Activation transform = read_activation(config, "classifier_activation", "gelu");
  const bool transform_bias = config.flag("classifier_bias", false);
  read_encoder_heads(config, {.name = "ModernBert", .masked_words = transform}, spec);
  if (spec.has_head) {
    spec.biases.head_transform = transform_bias;
    spec.biases.head = config.flag("decoder_bias", true);
  }
  if (!spec.classifier) return;
  spec.classifier->transform = transform;
  spec.classifier->transform_norm = true;
  spec.biases.classifier_transform = transform_bias;
  spec.classifier->pooling = read_classifier_pooling(config, "cls");
}

std::vector<bool> read_local_layers(const files::JsonReader& config, std::size_t layers) {
  if (config.has("layer_types")) {
    return read_layers_of_type(config, layers, "sliding_attention", {"full_attention", "sliding_attention"});
  }
  const std::size_t period = config.size("global_attn_every_n_layers", 3);
  std::vector<bool> local(layers);
  for (std::size_t layer = 0; layer < layers; ++layer) local[layer] = layer % period != 0;
  return local;
}

/// Returns how many tokens are visible on either side, the token itself included.
std::size_t read_local_window(const files::JsonReader& config) {
  if (config.has("sliding_window")) return config.size("sliding_window") + 1;
  return config.size("local_attention", 128) / 2 + 1;
}

void set_local_layers(const files::JsonReader& config, ModelSpec& spec) {
  const std::size_t head_size = spec.first_attention()->head_size;
  const double global_theta = config.positive("global_rope_theta", 160000);
  // If the field is null, all layers have the same rotation.
  const bool is_null = config.json().contains("local_rope_theta") && !config.has("local_rope_theta");
  const double local_theta = is_null ? global_theta : config.positive("local_rope_theta", 10000);
  const RopeSpec global =
      read_rope_of_type(config, "full_attention", head_size, {.theta = global_theta}, "rope_scaling");
  const RopeSpec local =
      read_rope_of_type(config, "sliding_attention", head_size, {.theta = local_theta}, "rope_scaling");
  set_layer_types(read_local_layers(config, spec.layers.size()), read_local_window(config), local, global, spec);
}

ModelSpec describe(const files::JsonReader& config) {
  DecoderConfig encoder = read_sizes(config, 8192, true);
  ModelSpec& spec = encoder.spec;
  spec.norm = {.kind = NormSpec::Kind::kLayer,
               .epsilon = config.positive("norm_eps", 1e-5),
               .bias = config.flag("norm_bias", false)};
  spec.causal = false;
  spec.embedding_norm = true;
  encoder.mlp.activation = read_activation(config, "hidden_activation", "gelu");
  read_llama_biases(config, spec.biases);
  read_outputs(config, spec);
  encoder.attention = read_heads(config, "num_attention_heads", "num_attention_heads", spec.hidden_size);
  if (config.flag("is_decoder", false)) config.fail("is_decoder", "true is not supported");
  ModelSpec finished = encoder.finish();
  finished.layers.front().mixer_norm = false;
  set_local_layers(config, finished);
  return finished;
}

}  // namespace
}  // namespace modernbert

constinit const Architecture kModernBert = {
    .model_type = "modernbert",
    .names = modernbert::kNames,
    .fused = modernbert::kFused,
    .describe = modernbert::describe,
    .prefix = "model.",
    .other_prefixes = kNoPrefix,
};

}  // namespace ballast::model
