// Keys and values of the tokens seen so far.
#ifndef BALLAST_MODEL_FORWARD_KEY_VALUE_CACHE_H_
#define BALLAST_MODEL_FORWARD_KEY_VALUE_CACHE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/attention/key_value_pages.h"
#include "model/forward/layer_pages.h"
#include "model/forward/page_pool.h"

namespace ballast::model {

/// What one token leaves in one layer; no heads: nothing.
struct CacheShape {
  std::size_t kv_heads = 0;
  std::size_t key_size = 0;     ///< per head
  std::size_t value_size = 0;   ///< per head
  std::size_t window = 0;       ///< last tokens that the layer's attention sees; 0: all
  bool values_in_keys = false;  ///< values are the first channels of the keys, and are not kept again

  /// Values of one token, whatever their type.
  std::size_t size() const { return kv_heads * (key_size + (values_in_keys ? 0 : value_size)); }
};

/// Of two windows, 0 for none.
inline std::size_t narrower_window(std::size_t a, std::size_t b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

struct KeyValueCacheOptions {
  kernels::CacheType type = kernels::CacheType::kF16;
  std::size_t capacity = 0;  ///< most tokens; of no effect with a window. Memory is taken as they come
  /// Rolling, after StreamingLLM (arXiv:2309.17453): the first `sinks` and the last `window` tokens are kept, in
  /// constant memory. 0: all tokens are kept, and there are no sinks.
  std::size_t window = 0;
  std::size_t sinks = 0;
  std::size_t largest_append = 0;            ///< with a window: most tokens appended at once, at least 1
  std::shared_ptr<PagePool> pool = nullptr;  ///< where pages come from; null: a pool of the cache's own
};

/// What appended keys have in common: a bias, rotated at their positions by angles [count][pairs].
struct AppendedBias {
  kernels::KeyBias bias{};
  const float* cos = nullptr;
  const float* sin = nullptr;
};

/// One sequence. A cache of one layer serves a pass that runs layer after layer (calibration). Not thread-safe; but
/// caches that share pages, or a pool, may be used by several threads, each by one at a time.
///
/// Copies share their pages, and so does a fork; whoever appends to a shared page first gets a copy of it.
///
/// Keys come in rotated at their token's position, position() onwards. A rolling cache keeps the window in a ring of
/// pages and the sinks in pages before it, in F16 at least. Seen from position p they have the places 0 .. sinks +
/// window - 1: within the window RoPE sees the same differences as between places; what meets the sinks is a query
/// rotated at slot(p) (AttentionSequence::sink_q).
class KeyValueCache {
 public:
  KeyValueCache(const std::vector<CacheShape>& layers, const KeyValueCacheOptions& options);

  kernels::CacheType type() const { return options_.type; }
  bool rolling() const { return options_.window != 0; }
  std::size_t window() const { return options_.window; }  ///< 0 when not rolling
  std::size_t sinks() const { return options_.sinks; }
  std::size_t slot(std::size_t position) const;

  /// The tokens so far become the prefix, which comes before every sequence: lengths count from its end from now on.
  void hold_prefix() { prefix_ = length_; }

  /// Tokens so far, those that a rolling cache dropped included, those of the prefix not.
  std::size_t length() const { return length_ - prefix_; }
  /// Of the next token, counted over prefix and tokens.
  std::size_t position() const { return length_; }
  /// Tokens that fit after the prefix; of a rolling cache, those of its ring.
  std::size_t capacity() const { return rolling() ? ring_tokens() : options_.capacity - prefix_; }
  /// Tokens that may be appended at once.
  std::size_t room() const { return rolling() ? ring_tokens() - options_.window : options_.capacity - length_; }

  /// Bytes that attention reads for one new token.
  std::size_t bytes_in_use() const;
  /// Bytes of the pages that the cache holds, those included that it shares.
  std::size_t memory_bytes() const;
  /// Of one page in every layer, tokens in F16 apart; and where they come from.
  std::size_t page_bytes() const;
  const PagePool& pool() const { return *options_.pool; }

  /// Appends `count` tokens' keys and values (heads side by side, rows the strides apart) to one layer, after the
  /// cache's length. An INT8 cache keeps a token whose flag is not 0 in F16 as long as it holds it; fp16_tokens is
  /// [count], or empty for none. It keeps keys without their bias, except for those tokens and sinks: the view needs it
  /// too. Values that keys contain are not looked at. Takes memory where a page begins. Throws Error, before anything
  /// changes, when there is no room.
  void append(std::size_t layer, const float* keys, std::size_t key_stride, const float* values,
              std::size_t value_stride, std::size_t count, std::span<const std::uint8_t> fp16_tokens = {},
              const AppendedBias& bias = {});

  /// Once all layers have them, `count` more tokens belong to the cache.
  void advance(std::size_t count);

  /// Tokens of one layer that an INT8 cache now keeps in F16, sinks included.
  std::size_t fp16_tokens(std::size_t layer) const;

  /// Of lengths after the prefix. False when a token that is seen from there on has been overwritten.
  bool can_truncate_to(std::size_t length) const;
  void truncate(std::size_t length);

  /// A cache of the first `length` tokens, after the same prefix, to which can_truncate_to: it shares their pages.
  KeyValueCache fork(std::size_t length) const;

  /// A layer with `appended` tokens after the cache's length. Valid until the next append, or until the cache is moved.
  kernels::KeyValueView view(std::size_t layer, std::size_t appended) const;

 private:
  bool int8() const { return options_.type == kernels::CacheType::kInt8; }
  std::size_t ring_tokens() const { return order_.ring * kernels::kPageTokens; }
  std::size_t first_in_ring() const;
  void check_room(std::size_t count) const;
  void store(LayerPages& pages, kernels::RowKind kind, const float* src, std::size_t stride, std::size_t count) const;

  KeyValueCacheOptions options_;
  kernels::PageOrder order_;
  std::vector<LayerPages> layers_;
  std::vector<std::size_t> windows_;  ///< of each layer's attention; 0: none
  std::size_t length_ = 0;            ///< of the prefix and what comes after it
  std::size_t prefix_ = 0;            ///< tokens that truncate() keeps
  std::size_t written_ = 0;           ///< positions before this one have been written at some time
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_FORWARD_KEY_VALUE_CACHE_H_
