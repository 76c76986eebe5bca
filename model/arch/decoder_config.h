// Fields of a config.json that many families share, and how they are written in a GGUF.
#ifndef BALLAST_MODEL_ARCH_DECODER_CONFIG_H_
#define BALLAST_MODEL_ARCH_DECODER_CONFIG_H_

#include <array>
#include <cstddef>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "ballast/spec.h"
#include "files/gguf/gguf.h"
#include "files/json_reader.h"
#include "model/arch/architecture.h"

namespace ballast::model {

/// Names of the Llama line: Llama, Mistral, Qwen2, Qwen3 and all that took over its modules.
inline constexpr std::array<TensorNames, 15> kLlamaNames{{
    {Role::kEmbedding, "model.embed_tokens", "token_embd"},
    {Role::kFinalNorm, "model.norm", "output_norm"},
    {Role::kHead, "lm_head", "output"},
    {Role::kAttentionNorm, "model.layers.{}.input_layernorm", "blk.{}.attn_norm"},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    {Role::kKey, "model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
    {Role::kValue, "model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    {Role::kQueryNorm, "model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm"},
    {Role::kKeyNorm, "model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm"},
    {Role::kOutputGate, "model.layers.{}.self_attn.g_proj", ""},
    {Role::kAttentionOutput, "model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    {Role::kMlpNorm, "model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"},
    {Role::kGate, "model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"},
    {Role::kUp, "model.layers.{}.mlp.up_proj", "blk.{}.ffn_up"},
    {Role::kDown, "model.layers.{}.mlp.down_proj", "blk.{}.ffn_down"},
}};

/// A description under way of a model whose layers are alike, or nearly so: what differs is set after finish().
struct DecoderConfig {
  ModelSpec spec;  ///< without layers
  std::size_t layers = 0;
  AttentionSpec attention;
  MlpSpec mlp;

  /// The spec with as many layers of this attention and this MLP.
  ModelSpec finish() const;
};

/// A number of blocks. So that a list or a loop of one entry for each is harmless before any tensor has been looked at,
/// it is at most 65,536.
std::size_t read_layer_count(const files::JsonReader& config, std::string_view field);

/// Sizes and the tied head from the fields that most families name alike, with the context and the flag that their
/// configuration classes have by default.
DecoderConfig read_sizes(const files::JsonReader& config, std::size_t default_context = 2048,
                         bool tied_by_default = false);

/// A decoder of the Llama line without biases: sizes, heads, RMSNorm, RoPE, gated MLP, tied embeddings.
DecoderConfig read_llama_line(const files::JsonReader& config);

/// Heads of equal sizes, from the fields of these names: `heads` must divide the hidden size, unless the family has a
/// field `head_size` and it is given, and be a multiple of the key and value heads. With the scale, without rotation.
AttentionSpec read_heads(const files::JsonReader& config, std::string_view heads, std::string_view kv_heads,
                         std::size_t hidden_size, std::string_view head_size = {});

/// The activation that a field names. Throws Error listing those that there are.
Activation read_activation(const files::JsonReader& config, std::string_view field, std::string_view fallback);

/// Windows per layer from `sliding_window` and, where it exists, `layer_types`; empty when `sliding_window` is null.
/// Absent it is 4096, as in the configuration classes of Mistral, Qwen2 and Qwen3.
std::vector<std::size_t> read_windows(const files::JsonReader& config, std::size_t layers);

/// Gives every layer its window; none where `windows` is empty. Precondition: all layers attend.
void set_windows(ModelSpec& spec, const std::vector<std::size_t>& windows);

/// Throws Error naming the first of `layer_types` that is not among `known`, or when there is not one for each layer.
void check_layer_types(const files::JsonReader& config, std::size_t layers,
                       std::initializer_list<std::string_view> known);

/// The config.json of a GGUF of the Llama line, with model type and keys of `architecture`.
nlohmann::json llama_line_from_gguf(const files::GgufFile& file, std::string_view architecture);

/// Token ids that begin and end a text, from a GGUF's metadata into config.json's fields.
void copy_token_ids(const files::GgufFile& file, nlohmann::json& config);

/// Number of rows of a GGUF's embedding.
std::size_t gguf_vocab_size(const files::GgufFile& file);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_DECODER_CONFIG_H_
