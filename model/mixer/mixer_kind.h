// The kinds of mixers and what is known about each.
#ifndef BALLAST_MODEL_MIXER_MIXER_KIND_H_
#define BALLAST_MODEL_MIXER_MIXER_KIND_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "ballast/spec.h"
#include "model/block/mixer.h"
#include "model/roles/role_row.h"
#include "model/roles/value_path.h"

namespace ballast::model {

struct BlockParts;
struct CacheShape;
class MixerState;

/// A kind of mixer: a description and functions, shared by all layers with this kind. Its output projection writes the
/// residual stream, and its linears that read the block's input name Role::kAttentionNorm as their input.
struct MixerKind {
  std::span<const RoleRow> roles;  ///< its linears, norms and vectors, in the order of the forward pass

  std::unique_ptr<const Mixer> (*assemble)(const ModelSpec&, std::size_t layer, const BlockParts&) = nullptr;

  /// Returns the shape of the keys and values that a token adds to the layer's cache; null: none.
  CacheShape (*cache_shape)(const LayerSpec&) = nullptr;

  /// Returns the shape of the keys and values that the layer makes of each token of a source text; null: none.
  CacheShape (*source_shape)(const LayerSpec&) = nullptr;

  /// Creates the initial state of a sequence in a layer, other than keys and values; null: none.
  std::unique_ptr<MixerState> (*make_state)(const ModelSpec&, std::size_t layer) = nullptr;

  /// Whether some of its projections' channels pass a short convolution first.
  bool convolves = false;

  /// Returns which folds pass through it; null if none can.
  ValuePath (*value_path)(const LayerSpec&) = nullptr;
};

/// Returns the kind that a layer's spec names.
const MixerKind& mixer_kind(const LayerSpec& layer);

/// Returns all kinds.
std::span<const MixerKind* const> mixer_kinds();

/// Returns MixerKind::value_path of a layer, if it has one.
std::optional<ValuePath> value_path(const LayerSpec& layer);

/// Returns MixerKind::cache_shape of a layer; without heads if it has none.
CacheShape cache_shape(const LayerSpec& layer);

/// Returns MixerKind::source_shape of a layer; without heads if it has none.
CacheShape source_shape(const LayerSpec& layer);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_MIXER_MIXER_KIND_H_
