// Keys and values of the tokens seen so far.
#ifndef BALLAST_MODEL_FORWARD_KEY_VALUE_CACHE_H_
#define BALLAST_MODEL_FORWARD_KEY_VALUE_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/key_value_rows.h"

namespace ballast::model {

/// What one token leaves in one layer.
struct CacheShape {
  std::size_t kv_heads = 0;
  std::size_t key_size = 0;    ///< per head
  std::size_t value_size = 0;  ///< per head
};

struct KeyValueCacheOptions {
  std::size_t layers = 1;
  kernels::CacheType type = kernels::CacheType::kF16;
  std::size_t capacity = 0;  ///< tokens that fit; of no effect with a window
  /// Rolling, after StreamingLLM (arXiv:2309.17453): the first `sinks` and the last `window` tokens are kept, in
  /// constant memory. 0: all tokens are kept, and there are no sinks.
  std::size_t window = 0;
  std::size_t sinks = 0;
  std::size_t largest_append = 0;  ///< with a window: most tokens appended at once, at least 1
};

/// What appended keys have in common: a bias, rotated at their positions by angles [count][pairs].
struct AppendedBias {
  kernels::KeyBias bias{};
  const float* cos = nullptr;
  const float* sin = nullptr;
};

/// One sequence. A cache of one layer serves a pass that runs layer after layer (calibration).
///
/// Keys come in rotated at their token's position, position() onwards. A rolling cache keeps the window in a ring and
/// the sinks beside it, in 16 bits at least. Seen from position p they stand in slots 0 .. sinks + window - 1: within
/// the window RoPE sees the same differences as between slots; what meets the sinks is a query rotated at slot(p)
/// (AttentionSequence::sink_q).
class KeyValueCache {
 public:
  KeyValueCache(const CacheShape& shape, const KeyValueCacheOptions& options);

  kernels::CacheType type() const { return options_.type; }
  bool rolling() const { return options_.window != 0; }
  std::size_t window() const { return options_.window; }  ///< 0 when not rolling
  std::size_t sinks() const { return options_.sinks; }
  std::size_t slot(std::size_t position) const;

  /// The tokens so far become the prefix, which stands in front of every sequence: lengths count behind it from now on.
  void hold_prefix() { prefix_ = length_; }

  /// Tokens so far, those that a rolling cache dropped included, those of the prefix not.
  std::size_t length() const { return length_ - prefix_; }
  /// Where the next token stands, counted over prefix and tokens.
  std::size_t position() const { return length_; }
  /// Tokens that fit behind the prefix; of a rolling cache, those of its ring.
  std::size_t capacity() const { return rolling() ? capacity_ : capacity_ - prefix_; }
  /// Tokens that may be appended at once.
  std::size_t room() const { return rolling() ? options_.largest_append : capacity_ - length_; }

  /// Bytes that attention reads for one new token.
  std::size_t bytes_in_use() const;
  /// Bytes that the cache holds: constant, but for the flagged tokens of an INT8 cache.
  std::size_t memory_bytes() const;

  /// Appends `count` tokens' keys and values (heads side by side, rows the strides apart) to one layer, behind the
  /// cache's length. An INT8 cache keeps a token whose flag is not 0 in F16 as long as it holds it; flags is [count],
  /// or empty for none. It keeps keys without their bias, except for flagged ones and sinks: the view needs it too.
  void append(std::size_t layer, const float* keys, std::size_t key_stride, const float* values,
              std::size_t value_stride, std::size_t count, std::span<const std::uint8_t> flags = {},
              const AppendedBias& bias = {});

  /// Once all layers have them, `count` more tokens belong to the cache.
  void advance(std::size_t count);

  /// Flagged tokens of one layer now in 16 bits.
  std::size_t flagged_tokens(std::size_t layer) const;

  /// Of lengths behind the prefix. False when a token that is seen from there on has been overwritten.
  bool can_truncate_to(std::size_t length) const;
  void truncate(std::size_t length);

  /// A layer with `appended` tokens behind the cache's length. Valid until the next append, or until the cache is
  /// moved.
  kernels::KeyValueView view(std::size_t layer, std::size_t appended) const;

 private:
  /// Keys, or values, of all layers.
  struct Store {
    kernels::RowKind kind = kernels::RowKind::kKeys;
    std::size_t size = 0;                             ///< of one head
    std::size_t row_bytes = 0;                        ///< of one head and token as stored
    std::size_t sink_bytes = 0;                       ///< the same of a sink
    std::vector<std::byte> rows;                      ///< [layers], each as kernels::CachedRows says
    std::vector<float> scales;                        ///< INT8: [layers][kv_heads][stored slots]
    std::vector<std::vector<std::uint16_t>> flagged;  ///< INT8: of each layer, F16 [places][kv_heads][size]
    std::vector<std::byte> sinks;                     ///< [layers][kv_heads][sinks][size]

    std::size_t bytes() const;
  };

  bool int8() const { return options_.type == kernels::CacheType::kInt8; }
  kernels::CacheType sink_type() const { return int8() ? kernels::CacheType::kF16 : options_.type; }
  std::size_t sinks_among(std::size_t count) const;
  /// Rows of all heads in one layer of a main store.
  std::size_t layer_rows() const { return shape_.kv_heads * kernels::stored_slots(options_.type, capacity_); }
  Store make_store(kernels::RowKind kind, std::size_t size) const;
  kernels::WritableRows writable_rows(Store& store, std::size_t layer) const;
  kernels::WritableRows writable_sinks(Store& store, std::size_t layer) const;
  kernels::CachedRows view_rows(const Store& store, std::size_t layer) const;
  kernels::CachedRows view_sinks(const Store& store, std::size_t layer) const;
  void append_sinks(Store& store, std::size_t layer, const float* src, std::size_t stride, std::size_t count);
  void append_rows(Store& store, std::size_t layer, const float* src, std::size_t stride, std::size_t count);
  const float* without_bias(const float* keys, std::size_t stride, std::size_t count, const AppendedBias& bias);
  std::int32_t* flagged_rows(std::size_t layer) { return flagged_rows_.data() + layer * capacity_; }
  void release_flagged(std::size_t layer, std::size_t position);
  void keep_flagged(std::size_t layer, std::size_t position, const float* keys, const float* values);

  CacheShape shape_;
  KeyValueCacheOptions options_;
  std::size_t capacity_;
  std::size_t length_ = 0;   ///< of the prefix and what is behind it
  std::size_t prefix_ = 0;   ///< tokens that truncate() keeps
  std::size_t written_ = 0;  ///< positions before this one have been written at some time
  Store keys_;
  Store values_;
  std::vector<float> unbiased_;                          ///< reused from append to append
  std::vector<std::int32_t> flagged_rows_;               ///< INT8: [layers][capacity], as CachedRows::exact_rows
  std::vector<std::vector<std::uint8_t>> places_taken_;  ///< INT8: of each layer, [places]
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_FORWARD_KEY_VALUE_CACHE_H_
