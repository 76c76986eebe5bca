// Names of latent attention with DeepSeek's experts, and Mistral 4, which is also the text model of multimodal models.
#ifndef BALLAST_MODEL_ARCH_MIXTURES_LATENT_H_
#define BALLAST_MODEL_ARCH_MIXTURES_LATENT_H_

#include <array>

#include "model/arch/architecture.h"
#include "model/arch/decoder_config.h"
#include "model/arch/mixtures/shared_experts.h"

namespace ballast::model {

inline constexpr std::array<TensorNames, 18> kLatentNames{{
    {Role::kEmbedding, "model.embed_tokens", "token_embd"},
    {Role::kFinalNorm, "model.norm", "output_norm"},
    {Role::kHead, "lm_head", "output"},
    {Role::kAttentionNorm, "model.layers.{}.input_layernorm", "blk.{}.attn_norm"},
    {Role::kQueryDown, "model.layers.{}.self_attn.q_a_proj", "blk.{}.attn_q_a"},
    {Role::kQueryDownNorm, "model.layers.{}.self_attn.q_a_layernorm", "blk.{}.attn_q_a_norm"},
    {Role::kQuery, "model.layers.{}.self_attn.q_b_proj", "blk.{}.attn_q_b"},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    {Role::kKeyValueDown, "model.layers.{}.self_attn.kv_a_proj", ""},
    {Role::kKeyValueDownNorm, "model.layers.{}.self_attn.kv_a_layernorm", "blk.{}.attn_kv_a_norm"},
    {Role::kKeyPosition, "model.layers.{}.self_attn.k_rope_proj", ""},
    {Role::kKey, "model.layers.{}.self_attn.k_b_proj", "blk.{}.attn_k_b"},
    {Role::kValue, "model.layers.{}.self_attn.v_b_proj", "blk.{}.attn_v_b"},
    {Role::kAttentionOutput, "model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    {Role::kMlpNorm, "model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"},
    {Role::kGate, "model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"},
    {Role::kUp, "model.layers.{}.mlp.up_proj", "blk.{}.ffn_up"},
    {Role::kDown, "model.layers.{}.mlp.down_proj", "blk.{}.ffn_down"},
}};
inline constexpr auto kLatentMixtureNames = joined_names(kLatentNames, kSharedExpertNames);

inline constexpr std::array kLatentDownParts = {Role::kKeyValueDown, Role::kKeyPosition};
inline constexpr std::array kLatentUpParts = {Role::kKey, Role::kValue};
inline constexpr std::array<FusedTensor, 2> kFusedLatent{{
    {"model.layers.{}.self_attn.kv_a_proj_with_mqa", "blk.{}.attn_kv_a_mqa", kLatentDownParts, FusedTensor::Runs::kOne},
    {"model.layers.{}.self_attn.kv_b_proj", "blk.{}.attn_kv_b", kLatentUpParts, FusedTensor::Runs::kHeads},
}};
inline constexpr std::array<FusedTensor, 3> kFusedLatentMixture = {kFusedLatent[0], kFusedLatent[1], kFusedExperts[0]};

ModelSpec describe_mistral4(const files::JsonReader& config);

/// Returns the config.json of a GGUF with the name "deepseek2": of DeepSeek-V2 or V3.
nlohmann::json deepseek_from_gguf(const files::GgufFile& file);

/// Returns the config.json of a GGUF with the name "glm4moe".
nlohmann::json glm4_moe_from_gguf(const files::GgufFile& file);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_MIXTURES_LATENT_H_
