// Latent attention with DeepSeek's experts: names, and Mistral 4, which also stands beside images.
#ifndef BALLAST_MODEL_ARCH_MIXTURES_LATENT_H_
#define BALLAST_MODEL_ARCH_MIXTURES_LATENT_H_

#include <array>

#include "model/arch/architecture.h"
#include "model/arch/decoder_config.h"
#include "model/arch/mixtures/shared_experts.h"

namespace ballast::model {

inline constexpr std::array<TensorNames, 18> kLatentNames{{
    {Role::kEmbedding, "model.embed_tokens", ""},
    {Role::kFinalNorm, "model.norm", ""},
    {Role::kHead, "lm_head", ""},
    {Role::kAttentionNorm, "model.layers.{}.input_layernorm", ""},
    {Role::kQueryDown, "model.layers.{}.self_attn.q_a_proj", ""},
    {Role::kQueryDownNorm, "model.layers.{}.self_attn.q_a_layernorm", ""},
    {Role::kQuery, "model.layers.{}.self_attn.q_b_proj", ""},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj", ""},
    {Role::kKeyValueDown, "model.layers.{}.self_attn.kv_a_proj", ""},
    {Role::kKeyValueDownNorm, "model.layers.{}.self_attn.kv_a_layernorm", ""},
    {Role::kKeyPosition, "model.layers.{}.self_attn.k_rope_proj", ""},
    {Role::kKey, "model.layers.{}.self_attn.k_b_proj", ""},
    {Role::kValue, "model.layers.{}.self_attn.v_b_proj", ""},
    {Role::kAttentionOutput, "model.layers.{}.self_attn.o_proj", ""},
    {Role::kMlpNorm, "model.layers.{}.post_attention_layernorm", ""},
    {Role::kGate, "model.layers.{}.mlp.gate_proj", ""},
    {Role::kUp, "model.layers.{}.mlp.up_proj", ""},
    {Role::kDown, "model.layers.{}.mlp.down_proj", ""},
}};
inline constexpr auto kLatentMixtureNames = joined_names(kLatentNames, kSharedExpertNames);

inline constexpr std::array kLatentDownParts = {Role::kKeyValueDown, Role::kKeyPosition};
inline constexpr std::array kLatentUpParts = {Role::kKey, Role::kValue};
inline constexpr std::array<FusedTensor, 2> kFusedLatent{{
    {"model.layers.{}.self_attn.kv_a_proj_with_mqa", "", kLatentDownParts, FusedTensor::Runs::kOne},
    {"model.layers.{}.self_attn.kv_b_proj", "", kLatentUpParts, FusedTensor::Runs::kHeads},
}};
inline constexpr std::array<FusedTensor, 3> kFusedLatentMixture = {kFusedLatent[0], kFusedLatent[1], kFusedExperts[0]};

ModelSpec describe_mistral4(const files::JsonReader& config);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_MIXTURES_LATENT_H_
