// Fields of a config.json that many families share.
#ifndef BALLAST_MODEL_ARCH_DECODER_CONFIG_H_
#define BALLAST_MODEL_ARCH_DECODER_CONFIG_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/spec.h"
#include "files/json_reader.h"
#include "model/arch/architecture.h"
#include "model/arch/rope_config.h"

namespace ballast::model {

/// Concatenates several lists of names.
template <std::size_t... sizes>
constexpr auto joined_names(const std::array<TensorNames, sizes>&... lists) {
  std::array<TensorNames, (sizes + ...)> names{};
  auto end = names.begin();
  ((end = std::ranges::copy(lists, end).out), ...);
  return names;
}

/// Names that the Llama line's modules have in common: embedding, head, attention and MLP.
inline constexpr std::array<TensorNames, 12> kLlamaModuleNames{{
    {Role::kEmbedding, "model.embed_tokens", "token_embd"},
    {Role::kFinalNorm, "model.norm", "output_norm"},
    {Role::kHead, "lm_head", "output"},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    {Role::kKey, "model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
    {Role::kValue, "model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    {Role::kQueryNorm, "model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm"},
    {Role::kKeyNorm, "model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm"},
    {Role::kAttentionOutput, "model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    {Role::kGate, "model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"},
    {Role::kUp, "model.layers.{}.mlp.up_proj", "blk.{}.ffn_up"},
    {Role::kDown, "model.layers.{}.mlp.down_proj", "blk.{}.ffn_down"},
}};

/// Names of Llama, Mistral, Qwen2, Qwen3 and all families that took over Llama's modules and its norms before attention
/// and MLP.
inline constexpr auto kLlamaNames =
    joined_names(kLlamaModuleNames, std::to_array<TensorNames>({
                                        {Role::kAttentionNorm, "model.layers.{}.input_layernorm", "blk.{}.attn_norm"},
                                        {Role::kOutputGate, "model.layers.{}.self_attn.g_proj", ""},
                                        {Role::kMlpNorm, "model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"},
                                    }));

/// Names of families that have Llama's modules, but norms of what attention and MLP return instead of what they read.
inline constexpr auto kOutputNormNames =
    joined_names(kLlamaModuleNames,
                 std::to_array<TensorNames>({
                     {Role::kAttentionNorm, "model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm"},
                     {Role::kMlpNorm, "model.layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm"},
                 }));

/// The only other prefix of encoders that are published without their head: none.
inline constexpr std::array<std::string_view, 1> kNoPrefix = {""};

/// Prefixes of tensor names in multimodal models, the older one last.
inline constexpr std::array<std::string_view, 2> kTextPrefixes = {"model.language_model.", "language_model.model."};

/// Returns the part of a configuration that describes the text model: all of it, or an object in it for a multimodal
/// model.
files::JsonReader text_config(const files::JsonReader& config);

/// Returns the spec of a multimodal model from that of its text_config: the outer configuration may say whether the
/// head is the embedding.
ModelSpec spec_of_whole(const files::JsonReader& config, ModelSpec text);

/// The gate and up matrices of a layer's experts, which are one tensor.
inline constexpr std::array kGateAndUp = {Role::kExpertGate, Role::kExpertUp};
inline constexpr std::array<FusedTensor, 1> kFusedExperts{
    {{"model.layers.{}.mlp.experts.gate_up_proj", "", kGateAndUp, FusedTensor::Runs::kOne}}};

/// An intermediate description of a model whose layers are alike, or nearly so: differences are set after finish().
struct DecoderConfig {
  ModelSpec spec;  ///< without layers
  std::size_t layers = 0;
  AttentionSpec attention;
  MlpSpec mlp;

  /// Returns the spec with `layers` layers of this attention and this MLP.
  ModelSpec finish() const;
};

/// Reads a number of blocks, at most 65,536, so that a list or a loop with one entry for each is harmless before any
/// tensor has been read.
std::size_t read_layer_count(const files::JsonReader& config, std::string_view field);

/// Reads sizes and the tied head from the fields that most families share, with the family's defaults of context and
/// flag.
DecoderConfig read_sizes(const files::JsonReader& config, std::size_t default_context = 2048,
                         bool tied_by_default = false);

/// Defaults of heads where a configuration has no such field. 0, and a field that is null, mean: as many key and value
/// heads as query heads, and the hidden size divided by the number of heads.
struct HeadDefaults {
  std::size_t kv_heads = 0;
  std::size_t head_size = 0;
};

/// Defaults of the configuration class of a family of the Llama line, for fields that are absent.
struct LlamaLineDefaults {
  std::size_t context = 2048;
  bool tied_embeddings = false;
  double epsilon = 1e-6;
  std::string_view activation = "silu";
  HeadDefaults heads{};
  RopeDefaults rope{};
};

/// Reads a decoder of the Llama line without biases: sizes, heads, RMSNorm, RoPE, gated MLP, tied embeddings.
DecoderConfig read_llama_line(const files::JsonReader& config, const LlamaLineDefaults& defaults = {});

/// Sets the biases of queries, keys, values and the output projection from `attention_bias`.
void read_attention_biases(const files::JsonReader& config, BiasSpec& biases);

/// Reads the Llama line's flags for biases: `attention_bias` and `mlp_bias`.
void read_llama_biases(const files::JsonReader& config, BiasSpec& biases);

/// Reads heads of equal sizes from the fields of these names. `heads` must divide the hidden size, unless the family
/// has a field `head_size` and it is given, and must be a multiple of the number of key and value heads. Sets the scale
/// of the scores, and no rotation.
AttentionSpec read_heads(const files::JsonReader& config, std::string_view heads, std::string_view kv_heads,
                         std::size_t hidden_size, std::string_view head_size = {}, const HeadDefaults& defaults = {});

/// The name in an encoder's classes, and the activations of the linears before its heads.
struct EncoderHeads {
  std::string name;
  std::optional<Activation> masked_words{};   ///< before the head of NAMEForMaskedLM; empty: no linear
  Activation classifier = Activation::kTanh;  ///< of NAMEForSequenceClassification
  bool pretraining = false;                   ///< NAMEForPreTraining has the head for masked words, too
};

/// Sets an encoder's head or classifier by the class that wrote it: NAMEForMaskedLM, NAMEModel (neither),
/// NAMEForSequenceClassification, NAMEForTokenClassification (whose classifier has no transform). Both linears of a
/// head or a classifier have biases. Without the field `architectures` it predicts masked words. Other classes are
/// refused.
void read_encoder_heads(const files::JsonReader& config, const EncoderHeads& heads, ModelSpec& spec);

/// Returns the function that a field names by its class in torch: "torch.nn.modules.activation.Sigmoid". Throws Error
/// for others than Sigmoid, Softmax and Identity.
ClassifierSpec::Function read_torch_function(const files::JsonReader& config, std::string_view field);

/// Sets the classifier of a decoder that was written by NAMEForSequenceClassification or NAMEForTokenClassification.
void read_decoder_classifier(const files::JsonReader& config, ModelSpec& spec);

/// Returns the pooling that `classifier_pooling` names: mean, or the family's name of the first token, which is also
/// the default.
Pooling read_classifier_pooling(const files::JsonReader& config, const std::string& first_token);

/// Gives an encoder what BERT has, but for sizes of heads and MLP: norms after the residual, biases everywhere, learned
/// positions, a norm of the embedding, and the heads. `positions`: what `position_embedding_type` must be, if it is
/// given.
void make_bert_like(const files::JsonReader& config, const EncoderHeads& heads, DecoderConfig& encoder,
                    std::string_view positions = "absolute");

/// Reads routed experts; the arguments are the names of the fields with their number, their hidden channels, and the
/// number per token.
ExpertSpec read_experts(const files::JsonReader& config, std::string_view count, std::string_view size,
                        std::string_view per_token = "num_experts_per_tok");

/// Gives experts to the layers selected by Qwen's fields `decoder_sparse_step` and `mlp_only_layers`.
void set_sparse_layers(const files::JsonReader& config, const ExpertSpec& experts, ModelSpec& spec);

/// Names of Qwen's experts, in addition to kLlamaNames: one tensor for each, or all of them in one.
inline constexpr std::array<TensorNames, 9> kQwenExpertNames{{
    {Role::kRouter, "model.layers.{}.mlp.gate", "blk.{}.ffn_gate_inp"},
    {Role::kSharedRouter, "model.layers.{}.mlp.shared_expert_gate", "blk.{}.ffn_gate_inp_shexp"},
    {Role::kSharedGate, "model.layers.{}.mlp.shared_expert.gate_proj", "blk.{}.ffn_gate_shexp"},
    {Role::kSharedUp, "model.layers.{}.mlp.shared_expert.up_proj", "blk.{}.ffn_up_shexp"},
    {Role::kSharedDown, "model.layers.{}.mlp.shared_expert.down_proj", "blk.{}.ffn_down_shexp"},
    {Role::kExpertGate, "model.layers.{}.mlp.experts.{}.gate_proj", "blk.{}.ffn_gate_exps"},
    {Role::kExpertUp, "model.layers.{}.mlp.experts.{}.up_proj", "blk.{}.ffn_up_exps"},
    {Role::kExpertDown, "model.layers.{}.mlp.experts.{}.down_proj", "blk.{}.ffn_down_exps"},
    {Role::kExpertDown, "model.layers.{}.mlp.experts.down_proj", ""},
}};

/// Returns the activation that a field names. Throws Error listing the known ones.
Activation read_activation(const files::JsonReader& config, std::string_view field, std::string_view fallback);

/// Returns the window of each layer from `sliding_window` and, if it exists, `layer_types`; empty if `sliding_window`
/// is null. If it is absent, it is 4096, as in the configuration classes of Mistral, Qwen2 and Qwen3.
std::vector<std::size_t> read_windows(const files::JsonReader& config, std::size_t layers);

/// Reads windows for Qwen: without layer_types the layers below max_window_layers attend to everything.
std::vector<std::size_t> read_windows_above(const files::JsonReader& config, std::size_t layers);

/// Sets the window of every layer; none if `windows` is empty. Precondition: all layers attend.
void set_windows(ModelSpec& spec, const std::vector<std::size_t>& windows);

/// Sets the same window for every layer, from `sliding_window`; none if it is null. transformers does so for these
/// families and ignores `layer_types`, so a `layer_types` that contradicts is refused.
void set_uniform_window(const files::JsonReader& config, std::optional<std::size_t> window_by_default, ModelSpec& spec);

/// Reads which layers rotate: those with a 1 in `no_rope_layers`, despite its name; without that list, or with an empty
/// one if the family treats it as absent, all but every `no_rope_layer_interval`-th.
enum class EmptyList { kRefused, kAbsent };
std::vector<bool> read_rotated_layers(const files::JsonReader& config, std::size_t layers,
                                      EmptyList empty = EmptyList::kRefused);

/// Returns the window of a family in which some layers have one: `sliding_window`, which may be absent but not null.
std::size_t read_window(const files::JsonReader& config, std::size_t fallback);

/// Reads which layers have a window, from `layer_types` or, if that does not exist, all but every
/// `sliding_window_pattern`-th.
std::vector<bool> read_sliding_layers(const files::JsonReader& config, std::size_t layers, std::size_t default_pattern);

/// Sets a window and the rotation `local` in the layers that slide, and in the others the rotation `global`, or none.
void set_layer_types(const std::vector<bool>& sliding, std::size_t window, const RopeSpec& local,
                     const std::optional<RopeSpec>& global, ModelSpec& spec);

/// Returns which of `layer_types` are `type`, if all are among `known` (check_layer_types). Precondition: the field
/// exists.
std::vector<bool> read_layers_of_type(const files::JsonReader& config, std::size_t layers, std::string_view type,
                                      std::initializer_list<std::string_view> known);

/// Throws Error naming the first of `layer_types` that is not among `known`, or when there is not one for each layer.
void check_layer_types(const files::JsonReader& config, std::size_t layers,
                       std::initializer_list<std::string_view> known);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_DECODER_CONFIG_H_
