// Granite 3: Llama with factors on embeddings, scores, what blocks add to the residual stream, and logits. Its mixtures
// have experts in the place of every MLP, some beside one that all tokens pass. HyperCLOVA X: with norms of what
// attention and MLP return, and logits multiplied, not divided.
#include "model/arch/hybrids/granite.h"

#include <array>

#include "model/arch/architectures.h"

namespace ballast::model {

DecoderConfig read_granite(const files::JsonReader& config, double attention_multiplier) {
  DecoderConfig decoder = read_llama_line(config);
  ModelSpec& spec = decoder.spec;
  read_attention_biases(config, spec.biases);
  // In the place of 1 / sqrt(head size), not beside it.
  decoder.attention.scale = config.positive("attention_multiplier", attention_multiplier);
  spec.embedding_scale = config.positive("embedding_multiplier", 1.0);
  spec.residual_scale = config.positive("residual_multiplier", 1.0);
  spec.logit_scale = 1.0 / config.positive("logits_scaling", 1.0);
  return decoder;
}

ExpertSpec read_granite_experts(const files::JsonReader& config) {
  ExpertSpec experts = read_experts(config, "num_local_experts", "intermediate_size");
  experts.normalize = true;
  return experts;
}

namespace {

constexpr std::array<TensorNames, 3> kSharedNames{{
    {Role::kSharedGate, "model.layers.{}.shared_mlp.gate_linear", ""},
    {Role::kSharedUp, "model.layers.{}.shared_mlp.up_linear", ""},
    {Role::kSharedDown, "model.layers.{}.shared_mlp.output_linear", ""},
}};
constexpr auto kMixtureNames = joined_names(joined_names(kLlamaNames, kGraniteExpertNames), kSharedNames);
constexpr std::array kSharedGateAndUp = {Role::kSharedGate, Role::kSharedUp};
constexpr std::array<FusedTensor, 3> kFused{{
    kFusedGraniteExperts[0],
    kFusedGraniteExperts[1],
    {"model.layers.{}.shared_mlp.input_linear", "", kSharedGateAndUp, FusedTensor::Runs::kOne},
}};
constexpr std::array<TensorNames, 2> kPostNorms{{
    {Role::kAttentionPostNorm, "model.layers.{}.post_norm1", ""},
    {Role::kMlpPostNorm, "model.layers.{}.post_norm2", ""},
}};
constexpr auto kHyperClovaNames = joined_names(kLlamaNames, kPostNorms);

ModelSpec describe_by(const files::JsonReader& config, double attention_multiplier) {
  DecoderConfig decoder = read_granite(config, attention_multiplier);
  read_llama_biases(config, decoder.spec.biases);
  return decoder.finish();
}

ModelSpec describe_dense(const files::JsonReader& config) {
  return describe_by(config, 1.0);
}

ModelSpec describe_mixture(const files::JsonReader& config) {
  ModelSpec spec = describe_dense(config);
  for (LayerSpec& layer : spec.layers) layer.mlp.experts = read_granite_experts(config);
  return spec;
}

ModelSpec describe_shared_mixture(const files::JsonReader& config) {
  ModelSpec spec = describe_mixture(config);
  const std::size_t shared = config.count("shared_intermediate_size", 0);
  for (LayerSpec& layer : spec.layers) layer.mlp.experts->shared_size = shared;
  return spec;
}

ModelSpec describe_hyperclovax(const files::JsonReader& config) {
  ModelSpec spec = describe_by(config, read_llama_line(config).attention.scale);
  spec.post_norms = config.flag("use_post_norm", true);
  spec.logit_scale = config.positive("logits_scaling", 1.0);
  return spec;
}

}  // namespace

constinit const Architecture kGranite = {
    .model_type = "granite",
    .names = kLlamaNames,
    .describe = describe_dense,
};

constinit const Architecture kGraniteMoe = {
    .model_type = "granitemoe",
    .names = kMixtureNames,
    .fused = kFused,
    .describe = describe_mixture,
};

constinit const Architecture kGraniteMoeShared = {
    .model_type = "granitemoeshared",
    .names = kMixtureNames,
    .fused = kFused,
    .describe = describe_shared_mixture,
};

constinit const Architecture kHyperClovaX = {
    .model_type = "hyperclovax",
    .names = kHyperClovaNames,
    .describe = describe_hyperclovax,
};

}  // namespace ballast::model
