// Falcon-H1: attention and Mamba 2 side by side in every layer, with factors around most matrices.
#include <array>
#include <vector>

#include "model/arch/architectures.h"
#include "model/arch/hybrids/mamba_hybrid.h"

namespace ballast::model {

namespace falcon_h1 {
namespace {

constexpr std::array<TensorNames, 12> kNames{{
    {Role::kEmbedding, "model.embed_tokens", ""},
    {Role::kFinalNorm, "model.final_layernorm", ""},
    {Role::kHead, "lm_head", ""},
    {Role::kAttentionNorm, "model.layers.{}.input_layernorm", ""},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj", ""},
    {Role::kKey, "model.layers.{}.self_attn.k_proj", ""},
    {Role::kValue, "model.layers.{}.self_attn.v_proj", ""},
    {Role::kAttentionOutput, "model.layers.{}.self_attn.o_proj", ""},
    {Role::kMlpNorm, "model.layers.{}.pre_ff_layernorm", ""},
    {Role::kGate, "model.layers.{}.feed_forward.gate_proj", ""},
    {Role::kUp, "model.layers.{}.feed_forward.up_proj", ""},
    {Role::kDown, "model.layers.{}.feed_forward.down_proj", ""},
}};
constexpr auto kAllNames = joined_names(kNames, kMambaNames);
constexpr std::array<FusedTensor, 1> kFused{kFusedMamba};

Mamba2Spec read_falcon_mamba(const files::JsonReader& config, std::size_t hidden_size) {
  const bool given = config.has("mamba_d_ssm") || !config.json().contains("mamba_d_ssm");
  Mamba2Spec mamba =
      read_mamba(config, given ? config.size("mamba_d_ssm", 1024) : config.size("mamba_expand", 2) * hidden_size);
  mamba.epsilon = config.positive("rms_norm_eps", 1e-5);
  if (!config.flag("mamba_rms_norm", false)) {
    mamba.norm = Mamba2Spec::Norm::kNone;
  } else if (config.flag("mamba_norm_before_gate", true)) {
    mamba.norm = Mamba2Spec::Norm::kBeforeGate;
  }
  return mamba;
}

ModelSpec describe(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(config, {.context = 8192, .epsilon = 1e-5, .heads = {.kv_heads = 8}});
  check_mamba_activation(config, "hidden_act");
  ModelSpec& spec = decoder.spec;
  read_llama_biases(config, spec.biases);
  spec.biases.mixer_input = config.flag("mamba_proj_bias", false);
  spec.biases.mixer_output = config.flag("projectors_bias", false);
  spec.embedding_scale = config.positive("embedding_multiplier", 1.0);
  spec.logit_scale = config.positive("lm_head_multiplier", 1.0);
  ModelSpec finished = decoder.finish();
  const Mamba2Spec mamba = read_falcon_mamba(config, spec.hidden_size);
  for (LayerSpec& layer : finished.layers) {
    layer.mixer = ParallelMixersSpec{.attention = decoder.attention, .mamba = mamba};
  }
  return finished;
}

/// Reads a list of factors; ones if it is absent.
std::vector<double> read_factors(const files::JsonReader& config, const char* field, std::size_t count) {
  std::vector<double> factors(count, 1.0);
  if (!config.has(field)) return factors;
  factors.clear();
  for (const files::JsonReader& factor : config.at(field).tuple(count)) factors.push_back(factor.number());
  return factors;
}

/// Returns the factors. A factor on a linear's input multiplies its matrix; one on its output also multiplies its bias.
std::vector<StoredFactor> stored_factors(const files::JsonReader& config) {
  std::vector<StoredFactor> factors;
  const auto add = [&](Role role, double input, double output) {
    factors.push_back({.role = role, .weights = input * output, .bias = output});
  };
  const double attention_input = config.number("attention_in_multiplier", 1.0);
  add(Role::kQuery, attention_input, 1.0);
  add(Role::kKey, attention_input, config.number("key_multiplier", 1.0));
  add(Role::kValue, attention_input, 1.0);
  add(Role::kAttentionOutput, 1.0, config.number("attention_out_multiplier", 1.0));
  const double mamba_input = config.number("ssm_in_multiplier", 1.0);
  const std::vector<double> of_projections = read_factors(config, "ssm_multipliers", kMambaProjections.size());
  for (std::size_t i = 0; i < kMambaProjections.size(); ++i) add(kMambaProjections[i], mamba_input, of_projections[i]);
  add(Role::kMambaOutput, 1.0, config.number("ssm_out_multiplier", 1.0));
  const std::vector<double> of_mlp = read_factors(config, "mlp_multipliers", 2);
  add(Role::kGate, 1.0, of_mlp[0]);
  add(Role::kDown, 1.0, of_mlp[1]);
  return factors;
}

}  // namespace
}  // namespace falcon_h1

constinit const Architecture kFalconH1 = {
    .model_type = "falcon_h1",
    .names = falcon_h1::kAllNames,
    .fused = falcon_h1::kFused,
    .describe = falcon_h1::describe,
    .stored_factors = falcon_h1::stored_factors,
};

}  // namespace ballast::model
