// The common part of the generations of Gemma.
#ifndef BALLAST_MODEL_ARCH_FAMILIES_GEMMA_H_
#define BALLAST_MODEL_ARCH_FAMILIES_GEMMA_H_

#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

#include "model/arch/decoder_config.h"

namespace ballast::model {

/// Names of the generations whose attention and MLP have output norms.
inline constexpr std::array<TensorNames, 16> kGemmaNames{{
    {Role::kEmbedding, "model.embed_tokens", "token_embd"},
    {Role::kFinalNorm, "model.norm", "output_norm"},
    {Role::kHead, "lm_head", "output"},
    {Role::kAttentionNorm, "model.layers.{}.input_layernorm", "blk.{}.attn_norm"},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    {Role::kKey, "model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
    {Role::kValue, "model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    {Role::kQueryNorm, "model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm"},
    {Role::kKeyNorm, "model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm"},
    {Role::kAttentionOutput, "model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    {Role::kAttentionPostNorm, "model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm"},
    {Role::kMlpNorm, "model.layers.{}.pre_feedforward_layernorm", "blk.{}.ffn_norm"},
    {Role::kGate, "model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"},
    {Role::kUp, "model.layers.{}.mlp.up_proj", "blk.{}.ffn_up"},
    {Role::kDown, "model.layers.{}.mlp.down_proj", "blk.{}.ffn_down"},
    {Role::kMlpPostNorm, "model.layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm"},
}};

/// Reads a decoder of the Llama line with Gemma's gains and scaled embeddings.
DecoderConfig read_gemma_line(const files::JsonReader& config, const LlamaLineDefaults& defaults);

/// Returns the factor of embeddings of `size` channels: sqrt(size), rounded as transformers does to the type of the
/// checkpoint's weights, in which the models were trained. In BF16 this changes it by up to 0.2 %.
double gemma_embedding_scale(const files::JsonReader& config, std::size_t size);

/// Reads a soft cap; 0 if the field is null.
double read_gemma_cap(const files::JsonReader& config, std::string_view field, double by_class);

/// Describes the text model of a model that also reads images: its configuration is in the object `text_config`, and
/// lacks the fields with the class's default, which is `by_class`.
ModelSpec describe_gemma_text(const files::JsonReader& config, nlohmann::json by_class,
                              ModelSpec (*describe)(const files::JsonReader&));

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_FAMILIES_GEMMA_H_
