// The common part of Granite 3 and its successors.
#ifndef BALLAST_MODEL_ARCH_HYBRIDS_GRANITE_H_
#define BALLAST_MODEL_ARCH_HYBRIDS_GRANITE_H_

#include <array>

#include "model/arch/decoder_config.h"

namespace ballast::model {

/// Names in published checkpoints, and in those that transformers 5 writes.
inline constexpr std::array<TensorNames, 7> kGraniteExpertNames{{
    {Role::kRouter, "model.layers.{}.block_sparse_moe.router.layer", "blk.{}.ffn_gate_inp"},
    {Role::kRouter, "model.layers.{}.block_sparse_moe.router", ""},
    {Role::kExpertGate, "model.layers.{}.block_sparse_moe.experts.{}.gate_proj", "blk.{}.ffn_gate_exps"},
    {Role::kExpertUp, "model.layers.{}.block_sparse_moe.experts.{}.up_proj", "blk.{}.ffn_up_exps"},
    {Role::kExpertDown, "model.layers.{}.block_sparse_moe.experts.{}.down_proj", "blk.{}.ffn_down_exps"},
    {Role::kExpertDown, "model.layers.{}.block_sparse_moe.output_linear", ""},
    {Role::kExpertDown, "model.layers.{}.block_sparse_moe.experts.down_proj", ""},
}};
inline constexpr std::array<FusedTensor, 2> kFusedGraniteExperts{{
    {"model.layers.{}.block_sparse_moe.input_linear", "", kGateAndUp, FusedTensor::Runs::kOne},
    {"model.layers.{}.block_sparse_moe.experts.gate_up_proj", "", kGateAndUp, FusedTensor::Runs::kOne},
}};

/// Reads a decoder of the Llama line with factors on embeddings, scores, the blocks' contributions to the residual
/// stream, and logits.
DecoderConfig read_granite(const files::JsonReader& config, double attention_multiplier = 1.0);

/// Reads the experts, which are the same in every layer.
ExpertSpec read_granite_experts(const files::JsonReader& config);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_HYBRIDS_GRANITE_H_
