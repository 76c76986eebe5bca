// What an encoder made of a source text, and what the decoder's layers made of that.
#ifndef BALLAST_MODEL_MIXER_ENCODED_SOURCE_H_
#define BALLAST_MODEL_MIXER_ENCODED_SOURCE_H_

#include <cstddef>
#include <span>
#include <vector>

#include "ballast/spec.h"
#include "kernels/attention/key_value_pages.h"
#include "model/cache/key_value_cache.h"

namespace ballast::model {

/// The encoder's output for one source text, and the keys and values that each layer with cross-attention makes of it
/// when it first reads it. Sequences that continue from the same source share one. Not thread-safe.
class EncodedSource {
 public:
  /// For all layers of a model. `rows` are the encoder's output, [tokens][hidden_size]. Keys and values are stored in
  /// `type`, but in F16 for INT8: they are read once per token, and fewer than the weights by far.
  EncodedSource(const ModelSpec& spec, std::span<const float> rows, kernels::CacheType type);

  /// For one layer, whose index here is 0.
  EncodedSource(const ModelSpec& spec, std::size_t layer, std::span<const float> rows);

  std::span<const float> rows() const { return rows_; }
  std::size_t tokens() const { return tokens_; }

  bool has_keys(std::size_t layer) const { return has_keys_[layer]; }

  /// Stores a layer's keys and values of all tokens, in rows that are `stride` floats apart.
  void set_keys(std::size_t layer, const float* keys, const float* values, std::size_t stride);

  /// Precondition: has_keys(layer).
  kernels::KeyValueView view(std::size_t layer) const { return cache_.view(layer, tokens_); }

  std::size_t memory_bytes() const { return rows_.size() * sizeof(float) + cache_.memory_bytes(); }

 private:
  std::vector<float> rows_;
  std::size_t tokens_;
  KeyValueCache cache_;
  std::vector<bool> has_keys_;  ///< of each layer
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_MIXER_ENCODED_SOURCE_H_
