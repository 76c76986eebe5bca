// The common part of Qwen3-Next and its successors: gated attention in every fourth layer, gated delta nets in the
// others, and experts with a shared one.
#ifndef BALLAST_MODEL_ARCH_HYBRIDS_QWEN_HYBRID_H_
#define BALLAST_MODEL_ARCH_HYBRIDS_QWEN_HYBRID_H_

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "model/arch/decoder_config.h"

namespace ballast::model {

/// Names in addition to kLlamaNames and kQwenExpertNames.
inline constexpr std::array<TensorNames, 12> kQwenDeltaNames{{
    {Role::kMlpNorm, "", "blk.{}.post_attention_norm"},
    {Role::kDeltaQuery, "model.layers.{}.linear_attn.in_proj_q", ""},
    {Role::kDeltaKey, "model.layers.{}.linear_attn.in_proj_k", ""},
    {Role::kDeltaValue, "model.layers.{}.linear_attn.in_proj_v", ""},
    {Role::kDeltaGate, "model.layers.{}.linear_attn.in_proj_z", "blk.{}.attn_gate"},
    {Role::kDeltaStrength, "model.layers.{}.linear_attn.in_proj_b", "blk.{}.ssm_beta"},
    {Role::kDeltaDecay, "model.layers.{}.linear_attn.in_proj_a", "blk.{}.ssm_alpha"},
    {Role::kDeltaConvolution, "model.layers.{}.linear_attn.conv1d.weight", "blk.{}.ssm_conv1d.weight"},
    {Role::kDeltaDecayBias, "model.layers.{}.linear_attn.dt_bias", "blk.{}.ssm_dt.bias"},
    {Role::kDeltaDecayRate, "model.layers.{}.linear_attn.A_log", "blk.{}.ssm_a"},
    {Role::kDeltaNorm, "model.layers.{}.linear_attn.norm", "blk.{}.ssm_norm"},
    {Role::kDeltaOutput, "model.layers.{}.linear_attn.out_proj", "blk.{}.ssm_out"},
}};

/// Names of the draft head (multi-token prediction), whose block is "mtp.layers.0".
inline constexpr std::array<TensorNames, 6> kQwenDraftNames{{
    {Role::kDraftEmbeddingNorm, "mtp.pre_fc_norm_embedding", "blk.{}.nextn.enorm"},
    {Role::kDraftModelNorm, "mtp.model_norm", ""},
    {Role::kDraftModelNorm, "model.norm", "output_norm"},
    {Role::kDraftHiddenNorm, "mtp.pre_fc_norm_hidden", "blk.{}.nextn.hnorm"},
    {Role::kDraftProjection, "mtp.fc", "blk.{}.nextn.eh_proj"},
    {Role::kDraftNorm, "mtp.norm", "blk.{}.nextn.shared_head_norm"},
}};
inline constexpr std::string_view kQwenDraftBlock = "mtp.layers.0";
inline constexpr auto kQwenHybridNames = joined_names(kLlamaNames, kQwenExpertNames, kQwenDeltaNames, kQwenDraftNames);

/// For each head, q_proj holds the rows of its query and then those of its gate.
inline constexpr std::array kQueryAndGate = {Role::kQuery, Role::kOutputGate};
inline constexpr FusedTensor kFusedQuery = {"model.layers.{}.self_attn.q_proj", "blk.{}.attn_q", kQueryAndGate,
                                            FusedTensor::Runs::kHeads};

/// Describes everything except the MLPs. Layers have the types of `layer_types`, or every `full_attention_interval`-th
/// one attends.
ModelSpec describe_qwen_hybrid(const files::JsonReader& config);

/// Returns the config.json of a GGUF with keys of `architecture`.
nlohmann::json qwen_hybrid_from_gguf(const files::GgufFile& file, std::string_view architecture);

/// Reads the experts of a layer, except for how their weights are normalized.
ExpertSpec read_qwen_experts(const files::JsonReader& config);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_HYBRIDS_QWEN_HYBRID_H_
