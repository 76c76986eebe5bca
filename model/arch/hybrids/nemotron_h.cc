// Nemotron-H and Nemotron 3: every layer is one of Mamba 2, attention without rotation, an MLP, or experts.
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "model/arch/architectures.h"
#include "model/arch/hybrids/mamba_hybrid.h"
#include "model/arch/mixtures/shared_experts.h"

namespace ballast::model {

namespace nemotron_h {
namespace {

constexpr std::array<TensorNames, 29> kNames{{
    {Role::kEmbedding, "backbone.embeddings", ""},
    {Role::kFinalNorm, "backbone.norm_f", ""},
    {Role::kHead, "lm_head", ""},
    {Role::kAttentionNorm, "backbone.layers.{}.norm", ""},
    {Role::kQuery, "backbone.layers.{}.mixer.q_proj", ""},
    {Role::kKey, "backbone.layers.{}.mixer.k_proj", ""},
    {Role::kValue, "backbone.layers.{}.mixer.v_proj", ""},
    {Role::kAttentionOutput, "backbone.layers.{}.mixer.o_proj", ""},
    {Role::kMambaGate, "backbone.layers.{}.mixer.z_proj", ""},
    {Role::kMambaValue, "backbone.layers.{}.mixer.x_proj", ""},
    {Role::kMambaKey, "backbone.layers.{}.mixer.b_proj", ""},
    {Role::kMambaQuery, "backbone.layers.{}.mixer.c_proj", ""},
    {Role::kMambaStep, "backbone.layers.{}.mixer.dt_proj", ""},
    {Role::kMambaConvolution, "backbone.layers.{}.mixer.conv1d.weight", ""},
    {Role::kMambaConvolutionBias, "backbone.layers.{}.mixer.conv1d.bias", ""},
    {Role::kMambaStepBias, "backbone.layers.{}.mixer.dt_bias", ""},
    {Role::kMambaDecayRate, "backbone.layers.{}.mixer.A_log", ""},
    {Role::kMambaSkip, "backbone.layers.{}.mixer.D", ""},
    {Role::kMambaNorm, "backbone.layers.{}.mixer.norm", ""},
    {Role::kMambaOutput, "backbone.layers.{}.mixer.out_proj", ""},
    {Role::kMlpNorm, "backbone.layers.{}.norm", ""},
    {Role::kUp, "backbone.layers.{}.mixer.up_proj", ""},
    {Role::kDown, "backbone.layers.{}.mixer.down_proj", ""},
    {Role::kRouter, "backbone.layers.{}.mixer.gate", ""},
    {Role::kRouterCorrection, "backbone.layers.{}.mixer.gate.e_score_correction_bias", ""},
    {Role::kSharedUp, "backbone.layers.{}.mixer.shared_experts.up_proj", ""},
    {Role::kSharedDown, "backbone.layers.{}.mixer.shared_experts.down_proj", ""},
    {Role::kExpertUp, "backbone.layers.{}.mixer.experts.{}.up_proj", ""},
    {Role::kExpertDown, "backbone.layers.{}.mixer.experts.{}.down_proj", ""},
}};
// Names of tensors that hold all experts of a layer, as in transformers.
constexpr std::array<TensorNames, 2> kWholeExperts{{
    {Role::kExpertUp, "backbone.layers.{}.mixer.experts.up_proj", ""},
    {Role::kExpertDown, "backbone.layers.{}.mixer.experts.down_proj", ""},
}};
constexpr auto kAllNames = joined_names(kNames, kWholeExperts);
constexpr std::array<FusedTensor, 1> kFused{
    {{"backbone.layers.{}.mixer.in_proj", "", kMambaProjections, FusedTensor::Runs::kOne}}};
constexpr std::array<std::string_view, 1> kNewerPrefixes = {"model."};

enum class LayerType { kMamba, kAttention, kMlp, kExperts };

/// Parses a pattern with one character per layer.
std::vector<LayerType> types_of_pattern(const files::JsonReader& config) {
  std::vector<LayerType> types;
  for (const char letter : config.text("hybrid_override_pattern")) {
    switch (letter) {
      case 'M':
        types.push_back(LayerType::kMamba);
        break;
      case '*':
        types.push_back(LayerType::kAttention);
        break;
      case '-':
        types.push_back(LayerType::kMlp);
        break;
      case 'E':
        types.push_back(LayerType::kExperts);
        break;
      default:
        config.fail("hybrid_override_pattern",
                    "'" + std::string(1, letter) + "' is not a type of layer; supported: M, *, - and E");
    }
  }
  return types;
}

std::vector<LayerType> read_types(const files::JsonReader& config) {
  constexpr const char* kField = "layers_block_type";
  std::vector<LayerType> types;
  if (!config.has(kField)) {
    types = types_of_pattern(config);
  } else {
    for (const files::JsonReader& entry : config.at(kField).elements()) {
      const std::string& name = entry.string();
      if (name == "mamba" || name == "linear_attention") {
        types.push_back(LayerType::kMamba);
      } else if (name == "attention" || name == "full_attention") {
        types.push_back(LayerType::kAttention);
      } else if (name == "mlp") {
        types.push_back(LayerType::kMlp);
      } else if (name == "moe") {
        types.push_back(LayerType::kExperts);
      } else {
        entry.fail("'" + name +
                   "' is not supported; supported: mamba, attention, linear_attention, full_attention, "
                   "mlp, moe");
      }
    }
  }
  if (types.empty()) config.fail(config.has(kField) ? kField : "hybrid_override_pattern", "names no layer");
  return types;
}

/// Returns the name of a field in a configuration: transformers' or an older one.
const char* either(const files::JsonReader& config, const char* name, const char* older) {
  return config.has(name) ? name : older;
}

Mamba2Spec read_nemotron_mamba(const files::JsonReader& config) {
  check_mamba_activation(config, "mamba_hidden_act");
  Mamba2Spec mamba;
  mamba.heads = config.size("mamba_num_heads", 128);
  mamba.head_size = config.size("mamba_head_dim", 64);
  const char* groups = either(config, "n_groups", "mamba_n_groups");
  mamba.groups = config.size(groups, 8);
  mamba.state_size = config.size("ssm_state_size", 128);
  mamba.width = config.size(either(config, "conv_kernel", "mamba_d_conv"), 4);
  mamba.convolution_bias = config.flag(either(config, "use_conv_bias", "mamba_conv_bias"), true);
  check_mamba_groups(config, groups, mamba);
  // This follows transformers; the authors' code reads time_step_limit instead (huggingface/transformers#48989).
  const char* least_step = either(config, "time_step_min", "mamba_dt_min");
  mamba.least_step = config.number(least_step, 0.001);
  if (mamba.least_step < 0) config.fail(least_step, "must not be negative");
  mamba.epsilon = config.positive("layer_norm_epsilon", 1e-5);
  return mamba;
}

ExpertSpec read_nemotron_experts(const files::JsonReader& config) {
  // One flag is for all MLPs, but transformers gives experts no biases.
  if (config.flag("mlp_bias", false)) config.fail("mlp_bias", "true is not supported with experts");
  if (config.has("moe_latent_size")) config.fail("moe_latent_size", "experts of a latent vector are not supported");
  ExpertSpec experts = read_experts(config, "n_routed_experts", "moe_intermediate_size");
  experts.shared_size = config.size("moe_shared_expert_intermediate_size");
  score_by_sigmoid(experts);
  experts.normalize = config.flag("norm_topk_prob", true);
  experts.scale = config.positive("routed_scaling_factor", 1.0);
  read_expert_groups(config, 1, experts);
  return experts;
}

ModelSpec describe(const files::JsonReader& config) {
  ModelSpec spec;
  spec.hidden_size = config.size("hidden_size");
  spec.vocab_size = config.size("vocab_size");
  spec.context_length = config.size("max_position_embeddings", 4096);
  spec.tied_embeddings = false;  // transformers never ties them in this family; tie_word_embeddings is ignored
  spec.norm.epsilon = config.positive("layer_norm_epsilon", 1e-5);
  // transformers never gives attention biases in this family and ignores the field.
  if (config.flag("attention_bias", false)) config.fail("attention_bias", "true is not supported");
  spec.biases.up = spec.biases.down = config.flag("mlp_bias", false);
  spec.biases.mixer_input = spec.biases.mixer_output = config.flag("use_bias", false);
  const MlpSpec activated = {.activation = read_activation(config, "mlp_hidden_act", "relu2"), .gated = false};
  for (const LayerType type : read_types(config)) {
    LayerSpec layer = {.mixer = NoMixerSpec{}, .mlp = activated};
    switch (type) {
      case LayerType::kMamba:
        layer.mixer = read_nemotron_mamba(config);
        break;
      case LayerType::kAttention:
        layer.mixer = read_heads(config, "num_attention_heads", "num_key_value_heads", spec.hidden_size, "head_dim",
                                 {.kv_heads = 8, .head_size = 128});
        break;
      case LayerType::kMlp:
        layer.mlp.size = config.size("intermediate_size");
        break;
      case LayerType::kExperts:
        layer.mlp.experts = read_nemotron_experts(config);
        break;
    }
    spec.layers.push_back(std::move(layer));
  }
  return spec;
}

}  // namespace
}  // namespace nemotron_h

constinit const Architecture kNemotronH = {
    .model_type = "nemotron_h",
    .names = nemotron_h::kAllNames,
    .fused = nemotron_h::kFused,
    .describe = nemotron_h::describe,
    .prefix = "backbone.",
    .other_prefixes = nemotron_h::kNewerPrefixes,
};

}  // namespace ballast::model
