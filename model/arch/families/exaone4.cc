// EXAONE 4: norms of the outputs of attention and MLP and of each head's query and key; if some layers have a window,
// the others do not rotate. Its mixtures (K-EXAONE) normalize the inputs, like Llama, and have DeepSeek-V3's experts.
#include <array>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/gguf_config.h"
#include "model/arch/mixtures/shared_experts.h"

namespace ballast::model {

namespace exaone4 {
namespace {

constexpr std::array<TensorNames, 1> kOtherCorrection{
    {{Role::kRouterCorrection, "model.layers.{}.mlp.e_score_correction_bias", ""}}};
constexpr auto kMixtureNames = joined_names(kLlamaNames, kOtherCorrection, kSharedExpertNames);

ModelSpec describe_common(const files::JsonReader& config, BlockLayout layout) {
  constexpr std::size_t kPattern = 4;
  DecoderConfig decoder = read_llama_line(config, {.epsilon = 1e-5, .heads = {.kv_heads = 32}});
  decoder.spec.layout = layout;
  decoder.attention.query_key_norm = HeadNormSpec{};
  ModelSpec spec = decoder.finish();
  if (config.json().contains("sliding_window") && !config.has("sliding_window")) {
    check_layer_types(config, spec.layers.size(), {"full_attention"});
    return spec;
  }
  set_layer_types(read_sliding_layers(config, spec.layers.size(), kPattern), read_window(config, 4096),
                  *decoder.attention.rope, {}, spec);
  return spec;
}

ModelSpec describe_dense(const files::JsonReader& config) {
  return describe_common(config, BlockLayout::kOutputNorm);
}

ModelSpec describe_mixture(const files::JsonReader& config) {
  ModelSpec spec = describe_common(config, BlockLayout::kPreNorm);
  ExpertSpec experts = read_shared_experts(
      config,
      {.count = "num_experts", .shared = "num_shared_experts", .shared_by_default = 1, .scale_by_default = 2.5});
  score_by_sigmoid(experts);
  experts.normalize = config.flag("norm_topk_prob", true);
  read_expert_groups(config, 1, experts);
  const std::size_t first = config.count("first_k_dense_replace", 1);
  if (!set_experts_by_type(config, experts, spec)) set_experts_from(first, experts, spec);
  return spec;
}

nlohmann::json dense_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, "exaone4", {.window = true});
  const GgufMetadata metadata(file, "exaone4");
  config["architectures"] = {"Exaone4ForCausalLM"};
  const std::size_t window = metadata.count("attention.sliding_window", 0);
  config["sliding_window"] = window == 0 ? nlohmann::json() : nlohmann::json(window);
  if (window != 0 && metadata.has("attention.sliding_window_pattern")) {
    config["layer_types"] = layer_types_from_gguf(metadata);
  }
  return config;
}

}  // namespace
}  // namespace exaone4

constinit const Architecture kExaone4 = {
    .model_type = "exaone4",
    .gguf_architecture = "exaone4",
    .names = kOutputNormNames,
    .describe = exaone4::describe_dense,
    .config_from_gguf = exaone4::dense_from_gguf,
};

constinit const Architecture kExaoneMoe = {
    .model_type = "exaone_moe",
    .names = exaone4::kMixtureNames,
    .fused = kFusedExperts,
    .describe = exaone4::describe_mixture,
};

}  // namespace ballast::model
