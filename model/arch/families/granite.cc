// Granite 3: Llama with factors on embeddings, scores, what blocks add to the residual stream, and logits. Its mixtures
// have experts in the place of every MLP.
#include "model/arch/hybrids/granite.h"

#include "model/arch/architectures.h"

namespace ballast::model {

DecoderConfig read_granite(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(config);
  ModelSpec& spec = decoder.spec;
  read_attention_biases(config, spec.biases);
  // In the place of 1 / sqrt(head size), not beside it.
  decoder.attention.scale = config.positive("attention_multiplier", 1.0);
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

constexpr auto kMixtureNames = joined_names(kLlamaNames, kGraniteExpertNames);

ModelSpec describe_dense(const files::JsonReader& config) {
  DecoderConfig decoder = read_granite(config);
  read_llama_biases(config, decoder.spec.biases);
  return decoder.finish();
}

ModelSpec describe_mixture(const files::JsonReader& config) {
  ModelSpec spec = describe_dense(config);
  for (LayerSpec& layer : spec.layers) layer.mlp.experts = read_granite_experts(config);
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
    .fused = kFusedGraniteExperts,
    .describe = describe_mixture,
};

}  // namespace ballast::model
