// Routed and shared experts, as in DeepSeek and many later families.
#ifndef BALLAST_MODEL_ARCH_MIXTURES_SHARED_EXPERTS_H_
#define BALLAST_MODEL_ARCH_MIXTURES_SHARED_EXPERTS_H_

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "ballast/spec.h"
#include "files/json_reader.h"
#include "model/arch/architecture.h"

namespace ballast::model {

/// Names of these experts, in addition to the others: one tensor for each, or all of them in one (kFusedExperts).
inline constexpr std::array<TensorNames, 9> kSharedExpertNames{{
    {Role::kRouter, "model.layers.{}.mlp.gate", "blk.{}.ffn_gate_inp"},
    {Role::kRouterCorrection, "model.layers.{}.mlp.gate.e_score_correction_bias", "blk.{}.exp_probs_b.bias"},
    {Role::kSharedGate, "model.layers.{}.mlp.shared_experts.gate_proj", "blk.{}.ffn_gate_shexp"},
    {Role::kSharedUp, "model.layers.{}.mlp.shared_experts.up_proj", "blk.{}.ffn_up_shexp"},
    {Role::kSharedDown, "model.layers.{}.mlp.shared_experts.down_proj", "blk.{}.ffn_down_shexp"},
    {Role::kExpertGate, "model.layers.{}.mlp.experts.{}.gate_proj", "blk.{}.ffn_gate_exps"},
    {Role::kExpertUp, "model.layers.{}.mlp.experts.{}.up_proj", "blk.{}.ffn_up_exps"},
    {Role::kExpertDown, "model.layers.{}.mlp.experts.{}.down_proj", "blk.{}.ffn_down_exps"},
    {Role::kExpertDown, "model.layers.{}.mlp.experts.down_proj", ""},
}};

/// Names of DeepSeek-V3's draft head (multi-token prediction), whose block comes after the model's last one. A
/// checkpoint may repeat the embedding and the head in it, which are the model's.
inline constexpr std::array<TensorNames, 6> kDeepseekDraftNames{{
    {Role::kDraftEmbeddingNorm, "model.layers.{}.enorm", "blk.{}.nextn.enorm"},
    {Role::kDraftModelNorm, "model.layers.{}.model_norm", ""},
    {Role::kDraftModelNorm, "model.norm", "output_norm"},
    {Role::kDraftHiddenNorm, "model.layers.{}.hnorm", "blk.{}.nextn.hnorm"},
    {Role::kDraftProjection, "model.layers.{}.eh_proj", "blk.{}.nextn.eh_proj"},
    {Role::kDraftNorm, "model.layers.{}.shared_head.norm", "blk.{}.nextn.shared_head_norm"},
}};

/// Names of fields, and the defaults of the configuration class. Fields without a default must exist.
struct SharedExpertFields {
  std::string_view count = "n_routed_experts";
  std::string_view shared = "n_shared_experts";
  std::string_view scale = "routed_scaling_factor";
  std::optional<std::size_t> shared_by_default{};
  std::optional<double> scale_by_default{};
};

/// Reads experts of `moe_intermediate_size` channels; the shared ones are one MLP.
ExpertSpec read_shared_experts(const files::JsonReader& config, const SharedExpertFields& fields = {});

/// Reads `n_group` and `topk_group`.
void read_expert_groups(const files::JsonReader& config, std::optional<std::size_t> by_default, ExpertSpec& experts);

/// Sets how DeepSeek-V3 chooses experts: scores by sigmoid, a correction that affects only the choice, groups ranked by
/// the sum of their best two, and weights divided by their sum.
void score_by_sigmoid(ExpertSpec& experts);

/// Gives experts to all layers from the `first` one on.
void set_experts_from(std::size_t first, const ExpertSpec& experts, ModelSpec& spec);

/// Gives experts to the layers that `mlp_layer_types` calls sparse. Returns false if there is no such field.
bool set_experts_by_type(const files::JsonReader& config, const ExpertSpec& experts, ModelSpec& spec);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_MIXTURES_SHARED_EXPERTS_H_
