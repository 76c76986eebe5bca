// What Qwen3-Next and its successors share: gated attention in every fourth layer, gated delta nets in the others, and
// experts beside one that all tokens pass.
#ifndef BALLAST_MODEL_ARCH_HYBRIDS_QWEN_HYBRID_H_
#define BALLAST_MODEL_ARCH_HYBRIDS_QWEN_HYBRID_H_

#include <array>

#include "model/arch/decoder_config.h"

namespace ballast::model {

/// Beside kLlamaNames, with kQwenExpertNames.
inline constexpr std::array<TensorNames, 11> kQwenDeltaNames{{
    {Role::kDeltaQuery, "model.layers.{}.linear_attn.in_proj_q", ""},
    {Role::kDeltaKey, "model.layers.{}.linear_attn.in_proj_k", ""},
    {Role::kDeltaValue, "model.layers.{}.linear_attn.in_proj_v", ""},
    {Role::kDeltaGate, "model.layers.{}.linear_attn.in_proj_z", ""},
    {Role::kDeltaStrength, "model.layers.{}.linear_attn.in_proj_b", ""},
    {Role::kDeltaDecay, "model.layers.{}.linear_attn.in_proj_a", ""},
    {Role::kDeltaConvolution, "model.layers.{}.linear_attn.conv1d.weight", ""},
    {Role::kDeltaDecayBias, "model.layers.{}.linear_attn.dt_bias", ""},
    {Role::kDeltaDecayRate, "model.layers.{}.linear_attn.A_log", ""},
    {Role::kDeltaNorm, "model.layers.{}.linear_attn.norm", ""},
    {Role::kDeltaOutput, "model.layers.{}.linear_attn.out_proj", ""},
}};
inline constexpr auto kQwenHybridNames = joined_names(joined_names(kLlamaNames, kQwenExpertNames), kQwenDeltaNames);

/// q_proj holds the query and the gate of one head after the other.
inline constexpr std::array kQueryAndGate = {Role::kQuery, Role::kOutputGate};
inline constexpr FusedTensor kFusedQuery = {"model.layers.{}.self_attn.q_proj", "", kQueryAndGate,
                                            FusedTensor::Runs::kHeads};

/// All but the MLPs: layers by `layer_types`, or every `full_attention_interval`-th one attends.
ModelSpec describe_qwen_hybrid(const files::JsonReader& config);

/// The experts of a layer that has some, without how their weights are normalized.
ExpertSpec read_qwen_experts(const files::JsonReader& config);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_HYBRIDS_QWEN_HYBRID_H_
