// The text models of Gemma 4: layers with a window, and full-attention layers with larger heads of whose channels a
// quarter rotates; norms of queries, keys and values; a factor on the stream in each layer. A mixture has experts in
// addition to each layer's MLP, which all read one normalized stream, each with its own gains. In the smallest models
// the last layers read keys and values of earlier ones, and each layer has its own input of a token.
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/arch/architectures.h"
#include "model/arch/families/gemma.h"
#include "model/arch/rope_config.h"

namespace ballast::model {

namespace gemma4 {
namespace {

constexpr std::array<TensorNames, 17> kOwnNames{{
    {Role::kLayerScale, "model.layers.{}.layer_scalar", ""},
    {Role::kTokenInputTable, "model.embed_tokens_per_layer", ""},
    {Role::kTokenInputProjection, "model.per_layer_model_projection", ""},
    {Role::kTokenInputNorm, "model.per_layer_projection_norm", ""},
    {Role::kTokenInputGate, "model.layers.{}.per_layer_input_gate", ""},
    {Role::kTokenInputOutput, "model.layers.{}.per_layer_projection", ""},
    {Role::kTokenInputPostNorm, "model.layers.{}.post_per_layer_input_norm", ""},
    {Role::kRouter, "model.layers.{}.router.proj", ""},
    {Role::kSharedGate, "model.layers.{}.mlp.gate_proj", ""},
    {Role::kSharedUp, "model.layers.{}.mlp.up_proj", ""},
    {Role::kSharedDown, "model.layers.{}.mlp.down_proj", ""},
    {Role::kSharedPostNorm, "model.layers.{}.post_feedforward_layernorm_1", ""},
    {Role::kExpertGate, "model.layers.{}.experts.{}.gate_proj", ""},
    {Role::kExpertUp, "model.layers.{}.experts.{}.up_proj", ""},
    {Role::kExpertDown, "model.layers.{}.experts.{}.down_proj", ""},
    {Role::kExpertDown, "model.layers.{}.experts.down_proj", ""},
    {Role::kExpertsPostNorm, "model.layers.{}.post_feedforward_layernorm_2", ""},
}};
constexpr auto kNames = joined_names(kGemmaNames, kOwnNames);
constexpr std::array<FusedTensor, 1> kFused{
    {{"model.layers.{}.experts.gate_up_proj", "", kGateAndUp, FusedTensor::Runs::kOne}}};

// Names in a mixture: the gains of the readers of the normalized stream, and the experts' factors in their sum.
constexpr std::string_view kMlpGain = "model.layers.{}.pre_feedforward_layernorm.weight";
constexpr std::string_view kExpertsGain = "model.layers.{}.pre_feedforward_layernorm_2.weight";
constexpr std::array<StoredVector, 6> kStoredVectors{{
    {Role::kRouter, "model.layers.{}.router.scale"},
    {Role::kSharedGate, kMlpGain},
    {Role::kSharedUp, kMlpGain},
    {Role::kExpertGate, kExpertsGain},
    {Role::kExpertUp, kExpertsGain},
    {Role::kExpertDown, "model.layers.{}.router.per_expert_scale", StoredVector::Multiplies::kExpertOutputs},
}};

std::span<const StoredVector> stored_vectors(const ModelSpec& spec) {
  if (!spec.has_experts()) return {};
  return kStoredVectors;
}

constexpr std::size_t kPattern = 6;  // every sixth layer has full attention
constexpr std::size_t kGlobalHeadSize = 512;
constexpr double kGlobalPartial = 0.25;
constexpr double kGlobalTheta = 1e6;

void refuse_what_is_missing(const files::JsonReader& config) {
  if (config.has("use_bidirectional_attention") && config.text("use_bidirectional_attention") != "vision") {
    config.fail("use_bidirectional_attention", "is not supported for text");
  }
}

/// Reads the heads of a layer with full attention: from transformers' field by layer, or from the fields of the first
/// checkpoints.
void read_global_heads(const files::JsonReader& config, std::size_t layer, AttentionSpec& attention) {
  std::size_t head_size = config.size("global_head_dim", kGlobalHeadSize);
  if (attention.values_are_keys) attention.kv_heads = config.size("num_global_key_value_heads", attention.kv_heads);
  if (config.has("per_layer_config")) {
    const files::JsonReader layers = config.object("per_layer_config");
    const std::string index = std::to_string(layer);
    if (layers.has(index)) {
      const files::JsonReader own = layers.object(index);
      for (const auto& [field, value] : own.members()) {
        if (field != "head_dim" && field != "num_key_value_heads") own.fail(field, "is not supported");
      }
      head_size = own.size("head_dim", attention.head_size);
      attention.kv_heads = own.size("num_key_value_heads", attention.kv_heads);
    }
  }
  if (attention.heads % attention.kv_heads != 0) {
    config.fail("num_global_key_value_heads", std::to_string(attention.kv_heads) + " does not divide the " +
                                                  std::to_string(attention.heads) + " attention heads");
  }
  attention.head_size = attention.value_size = head_size;
}

RopeSpec read_global_rope(const files::JsonReader& config, std::size_t head_size) {
  const RopeDefaults defaults = {.partial = kGlobalPartial, .theta = kGlobalTheta};
  if (config.has("rope_parameters")) {
    const files::JsonReader types = config.object("rope_parameters");
    if (types.has("full_attention")) {
      return read_proportional_rope(types.object("full_attention"), head_size, {.theta = kGlobalTheta});
    }
  }
  return read_proportional_rope(config, head_size, defaults);
}

/// Sets the layers whose keys and values the last layers read: the last layer before them that is of the same type,
/// with the same sizes and rotation.
void share_keys(const files::JsonReader& config, ModelSpec& spec) {
  const std::size_t sharing = config.count("num_kv_shared_layers", 0);
  if (sharing == 0) return;
  if (sharing >= spec.layers.size()) config.fail("num_kv_shared_layers", "leaves no layer with keys of its own");
  const bool wide = config.flag("use_double_wide_mlp", false);
  const std::size_t first = spec.layers.size() - sharing;
  for (std::size_t layer = first; layer < spec.layers.size(); ++layer) {
    AttentionSpec& attention = *spec.layers[layer].attention();
    std::size_t source = first;
    while (source > 0 && spec.layers[source - 1].attention()->window != attention.window) --source;
    if (source-- == 0) config.fail("num_kv_shared_layers", "leaves no layer of a type with keys of its own");
    spec.layers[source].attention()->shares_keys = true;
    attention.keys_of = source;
    const AttentionSpec& of_source = *spec.layers[source].attention();
    if (attention.kv_heads != of_source.kv_heads || attention.head_size != of_source.head_size) {
      config.fail("per_layer_config", "gives layers that share keys and values other sizes of them");
    }
    if (wide) spec.layers[layer].mlp.size *= 2;
  }
}

void add_token_inputs(const files::JsonReader& config, ModelSpec& spec) {
  constexpr const char* kSize = "hidden_size_per_layer_input";
  const std::size_t size = config.json().contains(kSize) && !config.has(kSize) ? 0 : config.count(kSize, 256);
  if (size == 0) return;
  if (config.size("vocab_size_per_layer_input", 262144) != spec.vocab_size) {
    config.fail("vocab_size_per_layer_input", "must be vocab_size");
  }
  // The projection is divided by the root of the hidden size before it is normalized.
  spec.token_inputs = {.size = size,
                       .table_scale = gemma_embedding_scale(config, size),
                       .projection_epsilon = spec.norm.epsilon * static_cast<double>(spec.hidden_size),
                       .scale = std::sqrt(0.5)};
}

void add_experts(const files::JsonReader& config, ModelSpec& spec) {
  ExpertSpec experts = read_experts(config, "num_experts", "moe_intermediate_size", "top_k_experts");
  experts.normalize = true;
  experts.shared_size = config.size("intermediate_size", 9216);
  experts.post_norms = true;
  for (LayerSpec& layer : spec.layers) layer.mlp.experts = experts;
}

/// Returns the factor on the router's input, which is divided by the square root of the hidden size.
std::vector<StoredFactor> stored_factors(const files::JsonReader& config) {
  const double hidden_size = static_cast<double>(text_config(config).size("hidden_size", 2304));
  return {{.role = Role::kRouter, .weights = 1.0 / std::sqrt(hidden_size)}};
}

ModelSpec describe(const files::JsonReader& config) {
  refuse_what_is_missing(config);
  DecoderConfig decoder =
      read_gemma_line(config, {.context = 131072, .tied_embeddings = true, .heads = {.kv_heads = 4, .head_size = 256}});
  decoder.spec.norm.gain_offset = 0.0;
  decoder.mlp.activation = read_activation(config, "hidden_activation", "gelu_pytorch_tanh");
  decoder.spec.post_norms = true;
  decoder.spec.layer_scales = true;
  decoder.spec.logit_cap = read_gemma_cap(config, "final_logit_softcapping", 0.0);
  decoder.attention.scale = 1.0;
  decoder.attention.query_key_norm = HeadNormSpec{};
  decoder.attention.value_norm = true;
  const bool shared = config.flag("attention_k_eq_v", false);
  std::vector<bool> sliding = read_sliding_layers(config, decoder.layers, kPattern);
  sliding.back() = false;  // the last layer has full attention, also if the list says otherwise
  const RopeSpec local = read_rope_of_type(config, "sliding_attention", decoder.attention.head_size, {});
  const std::size_t window = read_window(config, 512);
  ModelSpec spec = decoder.finish();
  for (std::size_t layer = 0; layer < sliding.size(); ++layer) {
    AttentionSpec& attention = *spec.layers[layer].attention();
    if (sliding[layer]) {
      attention.window = window;
      attention.rope = local;
    } else {
      attention.values_are_keys = shared;
      read_global_heads(config, layer, attention);
      attention.rope = read_global_rope(config, attention.head_size);
    }
  }
  if (config.flag("enable_moe_block", false)) add_experts(config, spec);
  share_keys(config, spec);
  add_token_inputs(config, spec);
  return spec;
}

ModelSpec describe_with_images(const files::JsonReader& config) {
  return describe_gemma_text(config,
                             {{"num_hidden_layers", 30},
                              {"hidden_size", 2304},
                              {"num_attention_heads", 8},
                              {"intermediate_size", 9216},
                              {"vocab_size", 262144}},
                             describe);
}

}  // namespace
}  // namespace gemma4

constinit const Architecture kGemma4Text = {
    .model_type = "gemma4_text",
    .names = gemma4::kNames,
    .fused = gemma4::kFused,
    .describe = gemma4::describe,
    .stored_factors = gemma4::stored_factors,
    .stored_vectors = gemma4::stored_vectors,
};

constinit const Architecture kGemma4 = {
    .model_type = "gemma4",
    .names = gemma4::kNames,
    .fused = gemma4::kFused,
    .describe = gemma4::describe_with_images,
    .stored_factors = gemma4::stored_factors,
    .stored_vectors = gemma4::stored_vectors,
    .prefix = "model.",
    .other_prefixes = kTextPrefixes,
};

}  // namespace ballast::model
