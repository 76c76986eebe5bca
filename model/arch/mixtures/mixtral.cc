// Mixtral: Mistral with experts in place of every MLP.
#include <array>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace {

// Published checkpoints say block_sparse_moe; transformers 5 has the experts of a layer in one tensor.
constexpr std::array<TensorNames, 6> kExpertNames{{
    {Role::kRouter, "model.layers.{}.block_sparse_moe.gate", ""},
    {Role::kRouter, "model.layers.{}.mlp.gate", ""},
    {Role::kExpertGate, "model.layers.{}.block_sparse_moe.experts.{}.w1", ""},
    {Role::kExpertUp, "model.layers.{}.block_sparse_moe.experts.{}.w3", ""},
    {Role::kExpertDown, "model.layers.{}.block_sparse_moe.experts.{}.w2", ""},
    {Role::kExpertDown, "model.layers.{}.mlp.experts.down_proj", ""},
}};
constexpr auto kNames = joined_names(kLlamaNames, kExpertNames);

ModelSpec describe(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(config, {.epsilon = 1e-5});
  ModelSpec spec = decoder.finish();
  ExpertSpec experts = read_experts(config, "num_local_experts", "intermediate_size");
  experts.normalize = true;
  for (LayerSpec& layer : spec.layers) layer.mlp.experts = experts;
  // Unlike Mistral's, its configuration class has no window by default.
  if (config.has("sliding_window")) set_windows(spec, read_windows(config, decoder.layers));
  return spec;
}

}  // namespace

constinit const Architecture kMixtral = {
    .model_type = "mixtral",
    .names = kNames,
    .fused = kFusedExperts,
    .describe = describe,
};

}  // namespace ballast::model
