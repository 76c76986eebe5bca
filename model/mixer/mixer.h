// The part of a layer that moves information between the tokens of a sequence: attention, or a recurrence.
#ifndef BALLAST_MODEL_MIXER_MIXER_H_
#define BALLAST_MODEL_MIXER_MIXER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "ballast/spec.h"
#include "model/mixer/value_path.h"
#include "model/role_table.h"

namespace ballast::model {

struct BlockParts;
struct BlockPass;
struct CacheShape;
struct Linear;
class LinearRows;
class MixerState;
struct Norm;

/// One layer's mixer with its weights. Immutable: any number of threads may run it.
class Mixer {
 public:
  Mixer() = default;
  Mixer(const Mixer&) = delete;
  Mixer& operator=(const Mixer&) = delete;
  virtual ~Mixer() = default;

  /// Adds the output projection's result for input [tokens][hidden_size] to hidden [tokens][hidden_size]; the input may
  /// be computed from hidden but is not a part of it. The tokens are grouped by the sequences of pass.batch; a
  /// sequence's result is the same bits in any batch and for any division of its tokens into calls. Returns the rows of
  /// hidden that continue: all, or with wanted_only those of the wanted tokens (keep_wanted_rows).
  virtual std::size_t forward(const BlockPass& pass, const LinearRows& input, float* hidden) const = 0;

  virtual void for_each_linear(const std::function<void(const Linear&, Role)>& visit) const = 0;
  virtual void for_each_norm(const std::function<void(const Norm&)>& visit) const = 0;
};

/// A kind of mixer: a description and functions, shared by all layers with this kind. Its output projection writes the
/// residual stream, and its linears that read the block's input name Role::kAttentionNorm as their input.
struct MixerKind {
  std::span<const RoleRow> roles;  ///< its linears, norms and vectors, in the order of the forward pass

  std::unique_ptr<const Mixer> (*assemble)(const ModelSpec&, std::size_t layer, const BlockParts&) = nullptr;

  /// Returns the shape of the keys and values that a token adds to the layer's cache; null: none.
  CacheShape (*cache_shape)(const LayerSpec&) = nullptr;

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

}  // namespace ballast::model

#endif  // BALLAST_MODEL_MIXER_MIXER_H_
