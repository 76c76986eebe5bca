// The common part of LFM2 and LFM3.
#ifndef BALLAST_MODEL_ARCH_HYBRIDS_LFM_H_
#define BALLAST_MODEL_ARCH_HYBRIDS_LFM_H_

#include <array>
#include <cstddef>

#include "model/arch/decoder_config.h"

namespace ballast::model {

/// All names except those of the attention's norms and output projection.
inline constexpr std::array<TensorNames, 17> kLfmNames{{
    {Role::kEmbedding, "model.embed_tokens", "token_embd"},
    {Role::kFinalNorm, "model.embedding_norm", "token_embd_norm"},
    {Role::kHead, "lm_head", "output"},
    {Role::kAttentionNorm, "model.layers.{}.operator_norm", "blk.{}.attn_norm"},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    {Role::kKey, "model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
    {Role::kValue, "model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    {Role::kConvolutionInputGate, "model.layers.{}.conv.b_proj", ""},
    {Role::kConvolutionOutputGate, "model.layers.{}.conv.c_proj", ""},
    {Role::kConvolutionInput, "model.layers.{}.conv.x_proj", ""},
    {Role::kConvolutionTaps, "model.layers.{}.conv.conv.weight", "blk.{}.shortconv.conv.weight"},
    {Role::kConvolutionBias, "model.layers.{}.conv.conv.bias", ""},
    {Role::kConvolutionOutput, "model.layers.{}.conv.out_proj", "blk.{}.shortconv.out_proj"},
    {Role::kMlpNorm, "model.layers.{}.ffn_norm", "blk.{}.ffn_norm"},
    {Role::kGate, "model.layers.{}.feed_forward.w1", "blk.{}.ffn_gate"},
    {Role::kUp, "model.layers.{}.feed_forward.w3", "blk.{}.ffn_up"},
    {Role::kDown, "model.layers.{}.feed_forward.w2", "blk.{}.ffn_down"},
}};
inline constexpr std::array kLfmProjections = {Role::kConvolutionInputGate, Role::kConvolutionOutputGate,
                                               Role::kConvolutionInput};
inline constexpr std::array<FusedTensor, 1> kFusedLfm{
    {{"model.layers.{}.conv.in_proj", "blk.{}.shortconv.in_proj", kLfmProjections, FusedTensor::Runs::kOne}}};

/// Returns the convolution of the layers that do not attend, and sets in `spec` whether the projections around it have
/// biases. Precondition: spec.hidden_size is known.
ShortConvolutionSpec read_lfm_convolution(const files::JsonReader& config, std::size_t default_width, ModelSpec& spec);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_HYBRIDS_LFM_H_
