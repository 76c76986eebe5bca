// Keys and values of the tokens seen so far.
#ifndef BALLAST_MODEL_KEY_VALUE_CACHE_H_
#define BALLAST_MODEL_KEY_VALUE_CACHE_H_

#include <cstddef>
#include <vector>

#include "ballast/spec.h"
#include "kernels/attention.h"

namespace ballast::model {

/// Fixed capacity, one sequence. A cache of one layer serves a pass that runs layer after layer (calibration).
class KeyValueCache {
 public:
  KeyValueCache(const ModelSpec& spec, std::size_t layers, std::size_t capacity, kernels::FloatType type);

  std::size_t length() const { return length_; }
  std::size_t capacity() const { return capacity_; }

  /// Bytes that attention reads for one new token.
  std::size_t bytes_in_use() const;

  /// Appends `count` tokens' keys and values to one layer, behind the cache's length.
  void append(std::size_t layer, const float* keys, const float* values, std::size_t stride, std::size_t count);

  /// Once all layers have them, `count` more tokens belong to the cache.
  void advance(std::size_t count) { length_ += count; }
  void truncate(std::size_t length) { length_ = length; }

  /// A layer with `appended` tokens behind the cache's length.
  kernels::KeyValueView view(std::size_t layer, std::size_t appended) const;

 private:
  std::size_t layer_bytes() const;

  kernels::AttentionShape shape_;
  std::size_t layers_;
  std::size_t capacity_;
  std::size_t length_ = 0;
  kernels::FloatType type_;
  std::vector<std::byte> keys_;
  std::vector<std::byte> values_;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_KEY_VALUE_CACHE_H_
