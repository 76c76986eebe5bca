// Rows of the role table that the kinds of attention share.
#ifndef BALLAST_MODEL_MIXER_HEAD_ROLES_H_
#define BALLAST_MODEL_MIXER_HEAD_ROLES_H_

#include <cstddef>
#include <cstdint>

#include "ballast/spec.h"
#include "model/cache/key_value_cache.h"
#include "model/roles/role_row.h"
#include "model/roles/value_path.h"

namespace ballast::model {

inline bool has_head_norms(const ModelSpec& /*spec*/, const LayerSpec& layer) {
  return layer.attention()->query_key_norm.has_value();
}

/// Returns whether a layer has keys and values of its own, instead of reading another layer's.
inline bool has_own_keys(const ModelSpec& /*spec*/, const LayerSpec& layer) {
  return !layer.attention()->keys_of;
}

/// Returns the shape of gains for one head, or for each of `heads` of the attention.
template <std::size_t AttentionSpec::* heads>
MatrixShape head_gains(const ModelSpec& /*spec*/, const LayerSpec& layer) {
  const AttentionSpec& attention = *layer.attention();
  const bool of_each = attention.query_key_norm->kind != HeadNormSpec::Kind::kRms;
  return {1, attention.head_size * (of_each ? attention.*heads : 1)};
}

template <std::size_t AttentionSpec::* heads>
Shape stored_head_gains(const ModelSpec& /*spec*/, const LayerSpec& layer) {
  const AttentionSpec& attention = *layer.attention();
  return {static_cast<std::int64_t>(attention.*heads), static_cast<std::int64_t>(attention.head_size)};
}

inline NormSpec head_norm(const ModelSpec& spec, const LayerSpec& layer) {
  NormSpec norm = spec.norm;
  const HeadNormSpec& heads = *layer.attention()->query_key_norm;
  norm.kind = heads.kind == HeadNormSpec::Kind::kLayer ? NormSpec::Kind::kLayer : NormSpec::Kind::kRms;
  norm.bias = false;
  if (!heads.gain) {
    norm.gain = false;
    norm.gain_offset = 0;
  }
  return norm;
}

/// Returns why gains of head norms are not folded: queries and keys are multiplied with each other, so no linear can
/// take the gains.
inline FoldLegality head_norm_reader(const ModelSpec& /*spec*/, const LayerSpec& layer) {
  const AttentionSpec& attention = *layer.attention();
  if (attention.rope && !attention.query_key_norm->after_rotation) {
    return {false, "the rotation follows, and commutes only with equal gains in both channels of a pair"};
  }
  return {false, "the score follows, no linear"};
}

inline const char* why_query_bias_stays(const LayerSpec& layer) {
  return layer.attention()->query_key_norm ? "the query norm follows, and it meets every key differently"
                                           : "it meets every key differently";
}

inline MatrixShape query_shape(const ModelSpec& spec, const LayerSpec& layer) {
  return {layer.attention()->heads * layer.attention()->head_size, spec.hidden_size};
}
inline MatrixShape key_shape(const ModelSpec& spec, const LayerSpec& layer) {
  return {layer.attention()->kv_heads * layer.attention()->head_size, spec.hidden_size};
}
inline MatrixShape value_shape(const ModelSpec& spec, const LayerSpec& layer) {
  return {layer.attention()->kv_heads * layer.attention()->value_size, spec.hidden_size};
}

inline constexpr RoleRow kQueryRow = {.role = Role::kQuery,
                                      .shape = query_shape,
                                      .bias_flag = &BiasSpec::query,
                                      .reads = Role::kAttentionNorm,
                                      .why_bias_stays = why_query_bias_stays};

inline constexpr RoleRow kOutputGateRow = {
    .role = Role::kOutputGate,
    .shape = [](const ModelSpec& spec,
                const LayerSpec& layer) { return MatrixShape{layer.attention()->gate_size(), spec.hidden_size}; },
    .present = [](const ModelSpec&, const LayerSpec& layer) { return layer.attention()->output_gate; },
    .bias_flag = &BiasSpec::output_gate,
    .reads = Role::kAttentionNorm,
    .why_bias_stays = [](const LayerSpec&) { return "the sigmoid follows"; }};

inline constexpr RoleRow kQueryNormRow = {.role = Role::kQueryNorm,
                                          .kind = RoleRow::Kind::kNorm,
                                          .shape = head_gains<&AttentionSpec::heads>,
                                          .present = has_head_norms,
                                          .stored_shape = stored_head_gains<&AttentionSpec::heads>,
                                          .norm = head_norm,
                                          .read_by_linears_only = head_norm_reader};

inline constexpr RoleRow kKeyNormRow = {
    .role = Role::kKeyNorm,
    .kind = RoleRow::Kind::kNorm,
    .shape = head_gains<&AttentionSpec::kv_heads>,
    .present = [](const ModelSpec& spec,
                  const LayerSpec& layer) { return has_head_norms(spec, layer) && has_own_keys(spec, layer); },
    .stored_shape = stored_head_gains<&AttentionSpec::kv_heads>,
    .norm = head_norm,
    .read_by_linears_only = head_norm_reader};

inline constexpr RoleRow kSinkLogitsRow = {
    .role = Role::kSinkLogits,
    .kind = RoleRow::Kind::kVector,
    .shape = [](const ModelSpec&, const LayerSpec& layer) { return MatrixShape{1, layer.attention()->heads}; },
    .present = [](const ModelSpec&, const LayerSpec& layer) { return layer.attention()->sink_logits; }};

inline constexpr RoleRow kRelativeBiasRow = {
    .role = Role::kRelativeBias,
    .kind = RoleRow::Kind::kVector,
    .shape =
        [](const ModelSpec&, const LayerSpec& layer) {
          return MatrixShape{1, layer.attention()->relative_bias->buckets * layer.attention()->heads};
        },
    .present = [](const ModelSpec&, const LayerSpec& layer) { return layer.attention()->relative_bias.has_value(); },
    .stored_shape =
        [](const ModelSpec&, const LayerSpec& layer) {
          return Shape{static_cast<std::int64_t>(layer.attention()->relative_bias->buckets),
                       static_cast<std::int64_t>(layer.attention()->heads)};
        }};

inline bool has_distance_rows(const ModelSpec& /*spec*/, const LayerSpec& layer) {
  return layer.attention()->disentangled.has_value();
}
inline bool has_distance_norm(const ModelSpec& /*spec*/, const LayerSpec& layer) {
  return layer.attention()->disentangled && layer.attention()->disentangled->norm;
}

inline constexpr RoleRow kDistanceRowsRow = {
    .role = Role::kDistanceRows,
    .kind = RoleRow::Kind::kVector,
    .shape =
        [](const ModelSpec& spec, const LayerSpec& layer) {
          return MatrixShape{1, layer.attention()->disentangled->rows() * spec.hidden_size};
        },
    .present = has_distance_rows,
    .stored_shape =
        [](const ModelSpec& spec, const LayerSpec& layer) {
          return Shape{static_cast<std::int64_t>(layer.attention()->disentangled->rows()),
                       static_cast<std::int64_t>(spec.hidden_size)};
        },
    .shared_by_layers = true};

constexpr RoleRow distance_norm_row(Role role) {
  return {.role = role,
          .kind = RoleRow::Kind::kVector,
          .shape = [](const ModelSpec& spec, const LayerSpec&) { return MatrixShape{1, spec.hidden_size}; },
          .present = has_distance_norm,
          .shared_by_layers = true};
}

inline constexpr RoleRow kAttentionOutputRow = {
    .role = Role::kAttentionOutput,
    .shape =
        [](const ModelSpec& spec, const LayerSpec& layer) {
          return MatrixShape{spec.hidden_size, layer.attention()->heads * layer.attention()->value_size};
        },
    .bias_flag = &BiasSpec::attention_output,
    .writes_stream = true,
    .after_mixing = true};

/// Implements MixerKind::value_path for both kinds: attention's weights mix the values of all tokens, head by head.
ValuePath value_path_of_heads(const LayerSpec& layer);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_MIXER_HEAD_ROLES_H_
