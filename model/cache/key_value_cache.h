// The cache of keys and values of a sequence.
#ifndef BALLAST_MODEL_CACHE_KEY_VALUE_CACHE_H_
#define BALLAST_MODEL_CACHE_KEY_VALUE_CACHE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/attention/key_value_pages.h"
#include "model/cache/layer_pages.h"
#include "model/cache/page_pool.h"

namespace ballast::model {

/// The keys and values that one token adds to a layer's cache; without heads: none.
struct CacheShape {
  std::size_t kv_heads = 0;
  std::size_t key_size = 0;     ///< per head
  std::size_t value_size = 0;   ///< per head
  std::size_t window = 0;       ///< number of last tokens that the layer's attention sees; 0: all
  bool values_in_keys = false;  ///< values are the first channels of the keys and are not stored separately

  /// Returns the values of one token, for any type.
  std::size_t size() const { return kv_heads * (key_size + (values_in_keys ? 0 : value_size)); }
};

/// Returns the narrower of two windows, 0 for none.
inline std::size_t narrower_window(std::size_t a, std::size_t b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

struct KeyValueCacheOptions {
  kernels::CacheType type = kernels::CacheType::kF16;
  std::size_t capacity = 0;  ///< most tokens; has no effect with a window. Memory is allocated as tokens come
  /// Rolling cache after StreamingLLM (arXiv:2309.17453): the first `sinks` and the last `window` tokens are kept, in
  /// constant memory. 0: all tokens are kept, and there are no sinks.
  std::size_t window = 0;
  std::size_t sinks = 0;
  std::size_t largest_append = 0;            ///< with a window: maximum number of tokens appended at once, at least 1
  std::shared_ptr<PagePool> pool = nullptr;  ///< the source of pages; null: the cache's own pool
};

/// The bias of all appended keys, rotated at their positions by angles [count][pairs].
struct AppendedBias {
  kernels::KeyBias bias{};
  const float* cos = nullptr;
  const float* sin = nullptr;
};

/// One sequence. A cache of one layer serves a pass that runs layer after layer (calibration). Not thread-safe, but
/// caches that share pages, or a pool, may be used by different threads.
///
/// Copies and forks share pages; appending to a shared page copies it first.
///
/// Keys come in rotated at their token's position, position() onwards. A rolling cache keeps the window in a ring of
/// pages and the sinks in pages before it, in F16 at least. From position p they have the indices 0 .. sinks + window -
/// 1: within the window the differences of positions are those of the indices; for the sinks a query is rotated at
/// slot(p) (AttentionSequence::sink_q).
class KeyValueCache {
 public:
  KeyValueCache(const std::vector<CacheShape>& layers, const KeyValueCacheOptions& options);

  kernels::CacheType type() const { return options_.type; }
  bool rolling() const { return options_.window != 0; }
  std::size_t window() const { return options_.window; }  ///< 0 when not rolling
  std::size_t sinks() const { return options_.sinks; }
  std::size_t slot(std::size_t position) const;

  /// Makes the current tokens the prefix, which comes before every sequence: lengths then count from its end.
  void hold_prefix() { prefix_ = length_; }

  /// Returns the tokens so far, including those that a rolling cache dropped, without the prefix.
  std::size_t length() const { return length_ - prefix_; }
  /// Returns the position of the next token, including the prefix.
  std::size_t position() const { return length_; }
  /// Returns the number of tokens that fit after the prefix; for a rolling cache, that of its ring.
  std::size_t capacity() const { return rolling() ? ring_tokens() : options_.capacity - prefix_; }
  /// Returns the number of tokens that may be appended at once.
  std::size_t room() const { return rolling() ? ring_tokens() - options_.window : options_.capacity - length_; }

  /// Returns the bytes that attention reads for one new token.
  std::size_t bytes_in_use() const;
  /// Returns the bytes of the cache's pages, including those that it shares.
  std::size_t memory_bytes() const;
  /// Return the bytes of one page in every layer, without tokens in F16, and the source of pages.
  std::size_t page_bytes() const;
  const PagePool& pool() const { return *options_.pool; }

  /// Appends `count` tokens' keys and values (adjacent heads, rows at the given strides) to one layer, after the
  /// cache's length. An INT8 cache stores a token whose flag is not 0 in F16; fp16_tokens is [count], or empty for
  /// none. It stores keys without their bias, except for those tokens and sinks, so the view needs the bias, too.
  /// Values that are part of keys are ignored. Allocates a page when it begins. Throws Error, before anything changes,
  /// if there is no room.
  void append(std::size_t layer, const float* keys, std::size_t key_stride, const float* values,
              std::size_t value_stride, std::size_t count, std::span<const std::uint8_t> fp16_tokens = {},
              const AppendedBias& bias = {});

  /// Adds `count` tokens, which have been appended to all layers, to the cache's length.
  void advance(std::size_t count);

  /// Returns the number of tokens of one layer that an INT8 cache stores in F16, sinks included.
  std::size_t fp16_tokens(std::size_t layer) const;

  /// Returns whether the cache can be truncated to a length after the prefix: no token that is visible from there may
  /// have been overwritten.
  bool can_truncate_to(std::size_t length) const;
  void truncate(std::size_t length);

  /// Returns a cache of the first `length` tokens after the same prefix, which shares their pages. Precondition:
  /// can_truncate_to.
  KeyValueCache fork(std::size_t length) const;

  /// The pages of one index in all layers that have keys and values, in their order, for files. Not for a rolling
  /// cache, which overwrites its pages. share_page() needs a page that has been written in all layers. allows_page()
  /// returns whether the sizes of F16 rows can be those of a page; make_page() returns memory for it and throws
  /// std::bad_alloc. is_consistent() returns whether a page that was filled can be adopted.
  std::size_t paged_layers() const;
  std::vector<StoredPage> share_page(std::size_t index) const;
  bool allows_page(std::span<const std::uint32_t> fp16_bytes) const;
  std::vector<StoredPage> make_page(std::span<const std::uint32_t> fp16_bytes) const;
  bool is_consistent(std::span<const StoredPage> page) const;

  /// Replaces a page, or adds it after the last one, and makes `length` the number of tokens after the prefix. The page
  /// has the positions from its first one to the new length.
  void adopt_page(std::size_t index, std::vector<StoredPage> page, std::size_t length);

  /// Returns a layer with `appended` tokens after the cache's length. Valid until the next append, or until the cache
  /// is moved.
  kernels::KeyValueView view(std::size_t layer, std::size_t appended) const;

 private:
  template <typename Visit>
  void for_each_paged_layer(const Visit& visit) const;
  bool int8() const { return options_.type == kernels::CacheType::kInt8; }
  std::size_t ring_tokens() const { return order_.ring * kernels::kPageTokens; }
  std::size_t first_in_ring() const;
  void check_room(std::size_t count) const;
  void store(LayerPages& pages, kernels::RowKind kind, const float* src, std::size_t stride, std::size_t count) const;

  KeyValueCacheOptions options_;
  kernels::PageOrder order_;
  std::vector<LayerPages> layers_;
  std::vector<std::size_t> windows_;  ///< of each layer's attention; 0: none
  std::size_t length_ = 0;            ///< of the prefix and the tokens after it
  std::size_t prefix_ = 0;            ///< tokens that truncate() keeps
  std::size_t written_ = 0;           ///< positions before this one have been written at least once
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_CACHE_KEY_VALUE_CACHE_H_
