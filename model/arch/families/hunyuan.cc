// Hunyuan 1, dense and with experts: Llama with norms over heads after the rotation, whose base may be scaled by a
// constant. Hy3: norms before it, and DeepSeek-V3's experts without groups.
#include <array>
#include <string>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/mixtures/shared_experts.h"

namespace ballast::model {

namespace hunyuan {
namespace {

constexpr std::array<TensorNames, 2> kHeadNorms{{
    {Role::kQueryNorm, "model.layers.{}.self_attn.query_layernorm", ""},
    {Role::kKeyNorm, "model.layers.{}.self_attn.key_layernorm", ""},
}};
constexpr auto kDenseNames = joined_names(kHeadNorms, kLlamaNames);
constexpr std::array<TensorNames, 8> kExpertNames{{
    {Role::kRouter, "model.layers.{}.mlp.gate.wg", ""},
    {Role::kSharedGate, "model.layers.{}.mlp.shared_mlp.gate_proj", ""},
    {Role::kSharedUp, "model.layers.{}.mlp.shared_mlp.up_proj", ""},
    {Role::kSharedDown, "model.layers.{}.mlp.shared_mlp.down_proj", ""},
    {Role::kExpertGate, "model.layers.{}.mlp.experts.{}.gate_proj", ""},
    {Role::kExpertUp, "model.layers.{}.mlp.experts.{}.up_proj", ""},
    {Role::kExpertDown, "model.layers.{}.mlp.experts.{}.down_proj", ""},
    {Role::kExpertDown, "model.layers.{}.mlp.experts.down_proj", ""},
}};
constexpr auto kMixtureNames = joined_names(kDenseNames, kExpertNames);
// Names of the published checkpoints; the names below are transformers'.
constexpr std::array<TensorNames, 5> kPublishedNames{{
    {Role::kRouter, "model.layers.{}.mlp.router.gate", ""},
    {Role::kRouterCorrection, "model.layers.{}.mlp.expert_bias", ""},
    {Role::kSharedGate, "model.layers.{}.mlp.shared_mlp.gate_proj", ""},
    {Role::kSharedUp, "model.layers.{}.mlp.shared_mlp.up_proj", ""},
    {Role::kSharedDown, "model.layers.{}.mlp.shared_mlp.down_proj", ""},
}};
constexpr std::array<TensorNames, 1> kOtherCorrection{
    {{Role::kRouterCorrection, "model.layers.{}.mlp.e_score_correction_bias", ""}}};
constexpr auto kHy3Names = joined_names(kLlamaNames, kPublishedNames, kSharedExpertNames, kOtherCorrection);

DecoderConfig describe_common(const files::JsonReader& config) {
  if (!config.flag("use_qk_norm", true)) config.fail("use_qk_norm", "false is not supported");
  if (config.flag("use_cla", false)) config.fail("use_cla", "true is not supported");
  DecoderConfig decoder = read_llama_line(config, {.epsilon = 1e-5, .rope = {.ntk_alpha = true}});
  decoder.attention.query_key_norm = HeadNormSpec{.after_rotation = true};
  read_attention_biases(config, decoder.spec.biases);
  return decoder;
}

ModelSpec describe_dense(const files::JsonReader& config) {
  return describe_common(config).finish();
}

// Returns the fields of one layer. A field holds one number for all layers, or a list with one for each.
nlohmann::json sizes_of_layer(const files::JsonReader& config, std::size_t layer, std::size_t size) {
  nlohmann::json sizes = {{"intermediate_size", size}};
  for (const char* field : {"num_experts", "moe_topk", "moe_intermediate_size", "num_shared_expert"}) {
    if (!config.has(field)) continue;
    const nlohmann::json& value = config.json()[field];
    if (value.is_array() && layer >= value.size()) {
      config.fail(field, "has no entry for layer " + std::to_string(layer));
    }
    sizes[field] = value.is_array() ? value[layer] : value;
  }
  return sizes;
}

ModelSpec describe_mixture(const files::JsonReader& config) {
  ModelSpec spec = describe_common(config).finish();
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    MlpSpec& mlp = spec.layers[layer].mlp;
    const nlohmann::json sizes = sizes_of_layer(config, layer, mlp.size);
    const files::JsonReader reader(sizes, config.context());
    mlp.experts = read_experts(reader, "num_experts", "intermediate_size", "moe_topk");
    mlp.experts->shared_size = mlp.size;
    mlp.experts->normalize = true;
    // transformers supports no other values of these fields.
    if (reader.size("moe_intermediate_size", mlp.size) != mlp.size) {
      config.fail("moe_intermediate_size", "must be intermediate_size");
    }
    if (reader.size("num_shared_expert", 1) != 1) config.fail("num_shared_expert", "must be 1");
  }
  return spec;
}

ModelSpec describe_hy3(const files::JsonReader& config) {
  // With this flag dense MLPs would have biases, but experts would not.
  if (config.flag("mlp_bias", false)) config.fail("mlp_bias", "true is not supported");
  DecoderConfig decoder = read_llama_line(
      config,
      {.context = 131072, .epsilon = 1e-5, .heads = {.kv_heads = 8, .head_size = 128}, .rope = {.theta = 11158840.0}});
  decoder.attention.query_key_norm = HeadNormSpec{};
  read_attention_biases(config, decoder.spec.biases);
  ModelSpec spec = decoder.finish();
  ExpertSpec experts = read_shared_experts(config, {.count = "num_experts",
                                                    .shared = "num_shared_experts",
                                                    .scale = "router_scaling_factor",
                                                    .shared_by_default = 1,
                                                    .scale_by_default = 2.826});
  score_by_sigmoid(experts);
  if (!set_experts_by_type(config, experts, spec)) set_experts_from(1, experts, spec);
  return spec;
}

}  // namespace
}  // namespace hunyuan

constinit const Architecture kHunyuanDense = {
    .model_type = "hunyuan_v1_dense",
    .names = hunyuan::kDenseNames,
    .describe = hunyuan::describe_dense,
};

constinit const Architecture kHunyuanMoe = {
    .model_type = "hunyuan_v1_moe",
    .names = hunyuan::kMixtureNames,
    .fused = kFusedExperts,
    .describe = hunyuan::describe_mixture,
};

constinit const Architecture kHy3 = {
    .model_type = "hy_v3",
    .names = hunyuan::kHy3Names,
    .fused = kFusedExperts,
    .describe = hunyuan::describe_hy3,
};

}  // namespace ballast::model
