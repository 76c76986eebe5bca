#include "model/mixer/attention_kinds.h"

#include <array>

namespace ballast::model {

namespace {

using Kind = RoleRow::Kind;

MatrixShape output_shape(const ModelSpec& spec, const LayerSpec& layer) {
  const AttentionSpec& attention = *layer.attention();
  return {spec.hidden_size, attention.heads * attention.value_size};
}

MatrixShape output_gate_shape(const ModelSpec& spec, const LayerSpec& layer) {
  const AttentionSpec& attention = *layer.attention();
  return {attention.heads * attention.value_size, spec.hidden_size};
}

MatrixShape head_vector(const ModelSpec& /*spec*/, const LayerSpec& layer) {
  return {1, layer.attention()->head_size};
}

NormSpec head_norm(const ModelSpec& spec, const LayerSpec& /*layer*/) {
  return {
      .kind = NormSpec::Kind::kRms, .epsilon = spec.norm.epsilon, .bias = false, .gain_offset = spec.norm.gain_offset};
}

bool has_output_gate(const ModelSpec& /*spec*/, const LayerSpec& layer) {
  return layer.attention()->output_gate;
}

bool has_head_norms(const ModelSpec& /*spec*/, const LayerSpec& layer) {
  return layer.attention()->query_key_norm;
}

const char* why_query_bias_stays(const LayerSpec& layer) {
  return layer.attention()->query_key_norm ? "the query norm stands behind it, and it meets every key differently"
                                           : "it meets every key differently";
}

// What both kinds have after queries, keys and values.
constexpr RoleRow kOutputGateRow = {.role = Role::kOutputGate,
                                    .shape = output_gate_shape,
                                    .present = has_output_gate,
                                    .bias_flag = &BiasSpec::query,
                                    .reads = Role::kAttentionNorm,
                                    .why_bias_stays = [](const LayerSpec&) { return "the sigmoid stands behind it"; }};
constexpr RoleRow kQueryNormRow = {
    .role = Role::kQueryNorm, .kind = Kind::kNorm, .shape = head_vector, .present = has_head_norms, .norm = head_norm};
constexpr RoleRow kKeyNormRow = {
    .role = Role::kKeyNorm, .kind = Kind::kNorm, .shape = head_vector, .present = has_head_norms, .norm = head_norm};
constexpr RoleRow kAttentionOutputRow = {.role = Role::kAttentionOutput,
                                         .shape = output_shape,
                                         .bias_flag = &BiasSpec::attention_output,
                                         .writes_stream = true,
                                         .after_mixing = true};

constexpr std::array<RoleRow, 7> kAttentionRoles{{
    {.role = Role::kQuery,
     .shape =
         [](const ModelSpec& spec, const LayerSpec& layer) {
           return MatrixShape{layer.attention()->heads * layer.attention()->head_size, spec.hidden_size};
         },
     .bias_flag = &BiasSpec::query,
     .reads = Role::kAttentionNorm,
     .why_bias_stays = why_query_bias_stays},
    {.role = Role::kKey,
     .shape =
         [](const ModelSpec& spec, const LayerSpec& layer) {
           return MatrixShape{layer.attention()->kv_heads * layer.attention()->head_size, spec.hidden_size};
         },
     .bias_flag = &BiasSpec::key,
     .reads = Role::kAttentionNorm},
    {.role = Role::kValue,
     .shape =
         [](const ModelSpec& spec, const LayerSpec& layer) {
           return MatrixShape{layer.attention()->kv_heads * layer.attention()->value_size, spec.hidden_size};
         },
     .bias_flag = &BiasSpec::value,
     .reads = Role::kAttentionNorm},
    kOutputGateRow,
    kQueryNormRow,
    kKeyNormRow,
    kAttentionOutputRow,
}};

bool has_query_latent(const ModelSpec& /*spec*/, const LayerSpec& layer) {
  return layer.latent()->query_rank > 0;
}

NormSpec latent_norm(const ModelSpec& spec, const LayerSpec& layer) {
  return {.kind = NormSpec::Kind::kRms,
          .epsilon = layer.latent()->epsilon,
          .bias = false,
          .gain_offset = spec.norm.gain_offset};
}

const char* latent_norm_follows(const LayerSpec& /*layer*/) {
  return "the latent vector's norm stands behind it";
}

constexpr std::array<RoleRow, 12> kLatentRoles{{
    {.role = Role::kQueryDown,
     .shape = [](const ModelSpec& spec,
                 const LayerSpec& layer) { return MatrixShape{layer.latent()->query_rank, spec.hidden_size}; },
     .present = has_query_latent,
     .bias_flag = &BiasSpec::latent,
     .reads = Role::kAttentionNorm,
     .why_bias_stays = latent_norm_follows},
    {.role = Role::kQueryDownNorm,
     .kind = Kind::kNorm,
     .shape = [](const ModelSpec&, const LayerSpec& layer) { return MatrixShape{1, layer.latent()->query_rank}; },
     .present = has_query_latent,
     .norm = latent_norm},
    {.role = Role::kQuery,
     .shape =
         [](const ModelSpec& spec, const LayerSpec& layer) {
           const std::size_t rank = layer.latent()->query_rank;
           return MatrixShape{layer.attention()->heads * layer.attention()->head_size,
                              rank > 0 ? rank : spec.hidden_size};
         },
     .bias_flag = &BiasSpec::query,
     .reads = Role::kQueryDownNorm,
     .why_bias_stays = why_query_bias_stays},
    {.role = Role::kKeyValueDown,
     .shape = [](const ModelSpec& spec,
                 const LayerSpec& layer) { return MatrixShape{layer.latent()->key_value_rank, spec.hidden_size}; },
     .bias_flag = &BiasSpec::latent,
     .reads = Role::kAttentionNorm,
     .why_bias_stays = latent_norm_follows},
    {.role = Role::kKeyPosition,
     .shape = [](const ModelSpec& spec,
                 const LayerSpec& layer) { return MatrixShape{rotary_size(*layer.attention()), spec.hidden_size}; },
     .bias_flag = &BiasSpec::latent,
     .reads = Role::kAttentionNorm,
     .why_bias_stays =
         [](const LayerSpec&) {
           return "it is rotated with each key's position, so it adds something else to every score";
         }},
    kOutputGateRow,
    {.role = Role::kKeyValueDownNorm,
     .kind = Kind::kNorm,
     .shape = [](const ModelSpec&, const LayerSpec& layer) { return MatrixShape{1, layer.latent()->key_value_rank}; },
     .norm = latent_norm},
    {.role = Role::kKey,
     .shape =
         [](const ModelSpec&, const LayerSpec& layer) {
           return MatrixShape{layer.attention()->kv_heads * rotary_offset(layer), layer.latent()->key_value_rank};
         },
     .bias_flag = &BiasSpec::key,
     .reads = Role::kKeyValueDownNorm},
    {.role = Role::kValue,
     .shape =
         [](const ModelSpec&, const LayerSpec& layer) {
           return MatrixShape{layer.attention()->kv_heads * layer.attention()->value_size,
                              layer.latent()->key_value_rank};
         },
     .bias_flag = &BiasSpec::value,
     .reads = Role::kKeyValueDownNorm},
    kQueryNormRow,
    kKeyNormRow,
    kAttentionOutputRow,
}};

ValuePath value_path_of_heads(const LayerSpec& layer) {
  const AttentionSpec& attention = *layer.attention();
  const char* gated = "the output gate multiplies it, by element and differently for every token";
  ValuePath path = {.value = Role::kValue,
                    .output = Role::kAttentionOutput,
                    .head_size = attention.value_size,
                    .sharing = attention.heads / attention.kv_heads,
                    .bias = {true, attention.kv_heads == attention.heads
                                       ? "a query's attention weights sum to 1"
                                       : "a query's attention weights sum to 1; it is repeated for the heads that "
                                         "share a value head"},
                    .scaling = {true,
                                "attention mixes tokens, not channels, and the output projection takes the "
                                "factor back"},
                    .rotation = {true,
                                 "attention mixes tokens, not channels, and the output projection turns each "
                                 "head back"}};
  if (attention.output_gate) {
    path.bias = {false, gated};
    path.scaling.reason = "attention and gate work channel by channel, the output projection takes the factor back";
    path.rotation = {false, "the output gate multiplies each channel of a head by a factor of its own"};
  }
  return path;
}

}  // namespace

constinit const MixerKind kAttention = {
    .name = "attention", .roles = kAttentionRoles, .value_path = value_path_of_heads};

constinit const MixerKind kLatentAttention = {
    .name = "latent attention", .roles = kLatentRoles, .value_path = value_path_of_heads};

}  // namespace ballast::model
