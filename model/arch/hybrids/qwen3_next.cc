// Qwen3-Next: three of four layers are gated delta nets, whose projections are interleaved by key head in two matrices.
#include <array>

#include "model/arch/architectures.h"
#include "model/arch/hybrids/qwen_hybrid.h"

namespace ballast::model {

namespace qwen3_next {
namespace {

constexpr std::array kProjections = {Role::kDeltaQuery, Role::kDeltaKey, Role::kDeltaValue, Role::kDeltaGate};
constexpr std::array kMixed = {Role::kDeltaQuery, Role::kDeltaKey, Role::kDeltaValue};
constexpr std::array kScalars = {Role::kDeltaStrength, Role::kDeltaDecay};
constexpr std::array<FusedTensor, 6> kFused{{
    kFusedQuery,
    kFusedExperts[0],
    {"model.layers.{}.linear_attn.in_proj_qkvz", "", kProjections, FusedTensor::Runs::kDeltaKeyHeads},
    {"model.layers.{}.linear_attn.in_proj_ba", "blk.{}.ssm_ba", kScalars, FusedTensor::Runs::kDeltaKeyHeads},
    {"", "blk.{}.attn_qkv", kMixed, FusedTensor::Runs::kOne},
    {"", "blk.{}.ssm_in", kProjections, FusedTensor::Runs::kDeltaKeyHeads},  // names in the first GGUFs
}};

ModelSpec describe(const files::JsonReader& config) {
  ModelSpec spec = describe_qwen_hybrid(config);
  if (config.count("num_experts", 512) == 0) return spec;
  ExpertSpec experts = read_qwen_experts(config);
  experts.normalize = config.flag("norm_topk_prob", true);
  set_sparse_layers(config, experts, spec);
  return spec;
}

nlohmann::json config_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = qwen_hybrid_from_gguf(file, "qwen3next");
  config["model_type"] = kQwen3Next.model_type;
  config["architectures"] = {"Qwen3NextForCausalLM"};
  return config;
}

}  // namespace
}  // namespace qwen3_next

constinit const Architecture kQwen3Next = {
    .model_type = "qwen3_next",
    .gguf_architecture = "qwen3next",
    .names = kQwenHybridNames,
    .fused = qwen3_next::kFused,
    .describe = qwen3_next::describe,
    .config_from_gguf = qwen3_next::config_from_gguf,
    .draft_block = kQwenDraftBlock,
};

}  // namespace ballast::model
