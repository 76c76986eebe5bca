// Granite 4: Granite 3 with Mamba 2 in most layers, and a shared MLP in addition to its experts, if it has any.
#include <array>
#include <string>
#include <vector>

#include "model/arch/architectures.h"
#include "model/arch/hybrids/granite.h"
#include "model/arch/hybrids/mamba_hybrid.h"

namespace ballast::model {

namespace granite_hybrid {
namespace {

constexpr std::array<TensorNames, 15> kNames{{
    {Role::kEmbedding, "model.embed_tokens", ""},
    {Role::kFinalNorm, "model.norm", ""},
    {Role::kHead, "lm_head", ""},
    {Role::kAttentionNorm, "model.layers.{}.input_layernorm", ""},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj", ""},
    {Role::kKey, "model.layers.{}.self_attn.k_proj", ""},
    {Role::kValue, "model.layers.{}.self_attn.v_proj", ""},
    {Role::kAttentionOutput, "model.layers.{}.self_attn.o_proj", ""},
    {Role::kMlpNorm, "model.layers.{}.post_attention_layernorm", ""},
    {Role::kGate, "model.layers.{}.shared_mlp.gate_proj", ""},
    {Role::kUp, "model.layers.{}.shared_mlp.up_proj", ""},
    {Role::kDown, "model.layers.{}.shared_mlp.output_linear", ""},
    {Role::kSharedGate, "model.layers.{}.shared_mlp.gate_proj", ""},
    {Role::kSharedUp, "model.layers.{}.shared_mlp.up_proj", ""},
    {Role::kSharedDown, "model.layers.{}.shared_mlp.output_linear", ""},
}};
constexpr auto kAllNames = joined_names(kNames, kMambaNames, kGraniteExpertNames);

constexpr std::array kPlainParts = {Role::kGate, Role::kUp};
constexpr std::array kSharedParts = {Role::kSharedGate, Role::kSharedUp};
constexpr std::array<FusedTensor, 5> kFused{{
    kFusedMamba,
    kFusedGraniteExperts[0],
    kFusedGraniteExperts[1],
    {"model.layers.{}.shared_mlp.input_linear", "", kPlainParts, FusedTensor::Runs::kOne},
    {"model.layers.{}.shared_mlp.input_linear", "", kSharedParts, FusedTensor::Runs::kOne},
}};

/// Returns which layers attend; without layer_types none does.
std::vector<bool> attending_layers(const files::JsonReader& config, std::size_t layers) {
  if (!config.has("layer_types")) return std::vector<bool>(layers, false);
  check_layer_types(config, layers, {"mamba", "attention", "linear_attention", "full_attention"});
  std::vector<bool> attending;
  for (const std::string& type : config.at("layer_types").strings()) {
    attending.push_back(type == "attention" || type == "full_attention");
  }
  return attending;
}

bool rotates(const files::JsonReader& config) {
  const std::string type = config.text("position_embedding_type", "nope");
  if (type != "rope" && type != "nope") {
    config.fail("position_embedding_type", "'" + type + "' is not supported; supported: rope, nope");
  }
  return type == "rope";
}

ModelSpec describe(const files::JsonReader& config) {
  DecoderConfig decoder = read_granite(config);
  check_mamba_activation(config, "hidden_act");
  BiasSpec& biases = decoder.spec.biases;
  biases.mixer_input = biases.mixer_output = config.flag("mamba_proj_bias", false);
  if (!rotates(config)) decoder.attention.rope.reset();
  Mamba2Spec mamba = read_mamba(config, config.size("mamba_expand", 2) * decoder.spec.hidden_size);
  mamba.epsilon = decoder.spec.norm.epsilon;
  decoder.mlp.size = config.size("shared_intermediate_size", 1024);
  if (config.count("num_local_experts", 8) > 0) {
    decoder.mlp.experts = read_granite_experts(config);
    decoder.mlp.experts->shared_size = decoder.mlp.size;
  }
  ModelSpec spec = decoder.finish();
  const std::vector<bool> attending = attending_layers(config, decoder.layers);
  for (std::size_t layer = 0; layer < decoder.layers; ++layer) {
    if (!attending[layer]) spec.layers[layer].mixer = mamba;
  }
  return spec;
}

}  // namespace
}  // namespace granite_hybrid

constinit const Architecture kGraniteMoeHybrid = {
    .model_type = "granitemoehybrid",
    .names = granite_hybrid::kAllNames,
    .fused = granite_hybrid::kFused,
    .describe = granite_hybrid::describe,
};

}  // namespace ballast::model
