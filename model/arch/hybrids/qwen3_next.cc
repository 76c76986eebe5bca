// Qwen3-Next: three of four layers are gated delta nets, whose projections lie key head by key head in two matrices.
#include <array>

#include "model/arch/architectures.h"
#include "model/arch/hybrids/qwen_hybrid.h"

namespace ballast::model {

namespace {

constexpr std::array kProjections = {Role::kDeltaQuery, Role::kDeltaKey, Role::kDeltaValue, Role::kDeltaGate};
constexpr std::array kScalars = {Role::kDeltaStrength, Role::kDeltaDecay};
constexpr std::array<FusedTensor, 4> kFused{{
    kFusedQuery,
    kFusedExperts[0],
    {"model.layers.{}.linear_attn.in_proj_qkvz", "", kProjections, FusedTensor::Runs::kDeltaKeyHeads},
    {"model.layers.{}.linear_attn.in_proj_ba", "", kScalars, FusedTensor::Runs::kDeltaKeyHeads},
}};

ModelSpec describe(const files::JsonReader& config) {
  ModelSpec spec = describe_qwen_hybrid(config);
  if (config.count("num_experts", 512) == 0) return spec;
  ExpertSpec experts = read_qwen_experts(config);
  experts.normalize = config.flag("norm_topk_prob", true);
  set_sparse_layers(config, experts, spec);
  return spec;
}

}  // namespace

constinit const Architecture kQwen3Next = {
    .model_type = "qwen3_next",
    .names = kQwenHybridNames,
    .fused = kFused,
    .describe = describe,
};

}  // namespace ballast::model
