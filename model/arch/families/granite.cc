// Granite 3: Llama with factors on embeddings, scores, what blocks add to the residual stream, and logits. Its mixtures
// have experts in the place of every MLP.
#include <array>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace {

constexpr std::array<TensorNames, 5> kExpertNames{{
    {Role::kRouter, "model.layers.{}.block_sparse_moe.router.layer", ""},
    {Role::kExpertGate, "model.layers.{}.block_sparse_moe.experts.{}.gate_proj", ""},
    {Role::kExpertUp, "model.layers.{}.block_sparse_moe.experts.{}.up_proj", ""},
    {Role::kExpertDown, "model.layers.{}.block_sparse_moe.experts.{}.down_proj", ""},
    {Role::kExpertDown, "model.layers.{}.block_sparse_moe.output_linear", ""},
}};
constexpr auto kMixtureNames = joined_names(kLlamaNames, kExpertNames);
constexpr std::array<FusedTensor, 1> kFused{
    {{"model.layers.{}.block_sparse_moe.input_linear", "", kGateAndUp, FusedTensor::Runs::kOne}}};

ModelSpec describe_dense(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(config);
  ModelSpec& spec = decoder.spec;
  read_llama_biases(config, spec.biases);
  // In the place of 1 / sqrt(head size), not beside it.
  decoder.attention.scale = config.positive("attention_multiplier", 1.0);
  spec.embedding_scale = config.positive("embedding_multiplier", 1.0);
  spec.residual_scale = config.positive("residual_multiplier", 1.0);
  spec.logit_scale = 1.0 / config.positive("logits_scaling", 1.0);
  return decoder.finish();
}

ModelSpec describe_mixture(const files::JsonReader& config) {
  ModelSpec spec = describe_dense(config);
  ExpertSpec experts = read_experts(config, "num_local_experts", "intermediate_size");
  experts.normalize = true;
  for (LayerSpec& layer : spec.layers) layer.mlp.experts = experts;
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

}  // namespace ballast::model
