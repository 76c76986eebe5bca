// Carries keys and values that later layers read along with the residual stream, in passes that run layer after layer.
#ifndef BALLAST_MODEL_FORWARD_SHARED_KEYS_H_
#define BALLAST_MODEL_FORWARD_SHARED_KEYS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "ballast/spec.h"
#include "model/forward/forward.h"
#include "model/mixer/sequence_state.h"

namespace ballast::model {

/// The position of shared keys and values in the rows that such a pass carries from layer to layer, one row per token.
class SharedKeys {
 public:
  explicit SharedKeys(const ModelSpec& spec);

  /// Returns the floats of one row; 0 if no layer shares keys and values.
  std::size_t row_size() const { return row_size_; }

  /// Is called after the pass of a layer, which wrote `activations`: copies what it shares to `rows`, one for each of
  /// the pass's tokens.
  void keep(std::size_t layer, const BlockActivations& activations, std::span<float> rows) const;

  /// Is called before the pass of a layer: copies what it reads of another layer from `rows` into the cache of a state
  /// of this layer, after the cache's length.
  void give(std::size_t layer, std::span<const float> rows, SequenceState& state) const;

 private:
  struct Source {
    std::size_t layer;
    CacheShape cache;
    std::size_t keys;  ///< offset in a row; values follow

    std::size_t values() const { return keys + cache.kv_heads * cache.key_size; }
  };
  const Source* find(std::size_t layer) const;

  std::vector<std::size_t> read_by_;  ///< cache_layer of each layer
  std::vector<Source> sources_;
  std::size_t row_size_ = 0;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_FORWARD_SHARED_KEYS_H_
