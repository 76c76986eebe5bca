#include "model/cache/key_value_cache.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <string>

#include "ballast/error.h"
#include "kernels/attention/key_bias.h"
#include "kernels/parallel.h"
#include "kernels/rope.h"
#include "kernels/scratch.h"

namespace ballast::model {

using kernels::kPageTokens;
using kernels::pages_for;
using kernels::RowKind;

namespace {

/// Returns the order of pages. In a ring, the first query of an append must still see its whole window after the last
/// token has been stored.
kernels::PageOrder page_order(const KeyValueCacheOptions& options) {
  if (options.window == 0) return {};
  return {.fixed = pages_for(options.sinks), .ring = pages_for(options.window + options.largest_append)};
}

/// Returns the keys [count][heads * key_size], dense, less the bias at each position. Valid until this thread's next
/// call.
const float* without_bias(const float* keys, std::size_t stride, std::size_t count, const kernels::PageLayout& layout,
                          const AppendedBias& bias) {
  static thread_local kernels::AlignedArray<float> unbiased;
  const std::size_t head_size = layout.size(RowKind::kKeys);
  const std::size_t size = layout.heads() * head_size;
  unbiased.grow(count * size);
  float* rows = unbiased.data();
  const std::size_t threads = kernels::threads_for(count * size);
  const auto repeat = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) std::copy_n(bias.bias.values, size, rows + i * size);
  };
  kernels::parallel_ranges(count, threads, repeat);
  const kernels::KeyRotation& rotation = *bias.bias.rotation;
  kernels::rope(rows + rotation.offset(), count, layout.heads(), head_size, 2 * rotation.pairs(), size, bias.cos,
                bias.sin);
  const auto subtract = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      for (std::size_t c = 0; c < size; ++c) rows[i * size + c] = keys[i * stride + c] - rows[i * size + c];
    }
  };
  kernels::parallel_ranges(count, threads, subtract);
  return rows;
}

}  // namespace

KeyValueCache::KeyValueCache(const std::vector<CacheShape>& layers, const KeyValueCacheOptions& options)
    : options_(options), order_(page_order(options)) {
  assert(rolling() ? options.largest_append > 0 : options.sinks == 0);
  if (options_.pool == nullptr) options_.pool = PagePool::make();
  layers_.reserve(layers.size());
  for (const CacheShape& shape : layers) {
    layers_.emplace_back(
        kernels::PageLayout(options.type, shape.kv_heads, shape.key_size, shape.value_size, shape.values_in_keys),
        options_.pool);
    windows_.push_back(narrower_window(shape.window, options.window));
  }
}

std::size_t KeyValueCache::memory_bytes() const {
  std::size_t total = 0;
  for (const LayerPages& layer : layers_) total += layer.bytes();
  return total;
}

std::size_t KeyValueCache::page_bytes() const {
  std::size_t total = 0;
  for (const LayerPages& layer : layers_) total += layer.layout().bytes();
  return total;
}

std::size_t KeyValueCache::bytes_in_use() const {
  const std::size_t sinks = std::min(length_, options_.sinks);
  std::size_t total = 0;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const kernels::PageLayout& layout = layers_[i].layout();
    const std::size_t others = windows_[i] > 0 ? std::min(length_ - sinks, windows_[i]) : length_;
    const std::size_t token_bytes = layout.heads() * layout.token_bytes();
    total += others * token_bytes;
    total += sinks * (int8() ? layout.fp16_row_size() * sizeof(std::uint16_t) : token_bytes);
  }
  return total;
}

std::size_t KeyValueCache::slot(std::size_t position) const {
  return rolling() ? std::min(position, options_.sinks + options_.window - 1) : position;
}

kernels::KeyValueView KeyValueCache::view(std::size_t layer, std::size_t appended) const {
  return {.layout = &layers_[layer].layout(),
          .pages = layers_[layer].view(),
          .order = order_,
          .key_bias = {},
          .length = length_ + appended};
}

void KeyValueCache::check_room(std::size_t count) const {
  if (count <= room()) return;
  const std::string what = std::to_string(count) + " tokens at once do not fit ";
  if (rolling()) {
    throw Error("key-value cache", what + "a rolling cache that takes " + std::to_string(room()) + ": append fewer");
  }
  throw Error("key-value cache", what + "after " + std::to_string(length_) + " of " +
                                     std::to_string(options_.capacity) + ": shorten the text or make it larger");
}

/// Stores rows of the `count` tokens after the cache's length in pages that no other cache shares.
void KeyValueCache::store(LayerPages& pages, RowKind kind, const float* src, std::size_t stride,
                          std::size_t count) const {
  constexpr std::size_t kPagesAtOnce = 16;
  std::array<std::byte*, kPagesAtOnce> targets;
  std::size_t stored = 0;
  while (stored < count) {
    const std::size_t slot = (length_ + stored) % kPageTokens;
    const std::size_t part = std::min(count - stored, kPagesAtOnce * kPageTokens - slot);
    for (std::size_t i = 0; i < pages_for(slot + part); ++i) {
      // In a ring, later slots have tokens that are still visible.
      const std::size_t used = rolling() ? kPageTokens : i == 0 ? slot : 0;
      targets[i] = pages.own_page(order_.page_of(length_ + stored + i * kPageTokens), used);
    }
    kernels::store_rows(src + stored * stride, stride, part, pages.layout(), kind, targets, slot);
    stored += part;
  }
}

void KeyValueCache::append(std::size_t layer, const float* keys, std::size_t key_stride, const float* values,
                           std::size_t value_stride, std::size_t count, std::span<const std::uint8_t> fp16_tokens,
                           const AppendedBias& bias) {
  assert(layer < layers_.size() && (fp16_tokens.empty() || fp16_tokens.size() == count));
  check_room(count);
  LayerPages& pages = layers_[layer];
  written_ = std::max(written_, length_ + count);
  if (int8() && bias.bias.values != nullptr) {
    const std::size_t size = pages.layout().heads() * pages.layout().size(RowKind::kKeys);
    store(pages, RowKind::kKeys, without_bias(keys, key_stride, count, pages.layout(), bias), size, count);
  } else {
    store(pages, RowKind::kKeys, keys, key_stride, count);
  }
  if (!pages.layout().values_in_keys()) store(pages, RowKind::kValues, values, value_stride, count);
  if (!int8()) return;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t position = length_ + i;
    const std::size_t page = order_.page_of(position);
    const bool fp16 = position < options_.sinks || (!fp16_tokens.empty() && fp16_tokens[i] != 0);
    if (fp16) {
      pages.read_fp16(page, position % kPageTokens, keys + i * key_stride, values + i * value_stride);
    } else {
      pages.read_codes(page, position % kPageTokens);
    }
  }
}

void KeyValueCache::advance(std::size_t count) {
  length_ += count;
  written_ = std::max(written_, length_);
}

std::size_t KeyValueCache::fp16_tokens(std::size_t layer) const {
  std::size_t count = 0;
  const auto add = [&](std::size_t position) {
    if (layers_[layer].reads_fp16(order_.page_of(position), position % kPageTokens)) ++count;
  };
  const std::size_t fixed = rolling() ? std::min(order_.fixed * kPageTokens, length_) : length_;
  for (std::size_t position = 0; position < fixed; ++position) add(position);
  for (std::size_t position = std::max(fixed, first_in_ring()); position < length_; ++position) add(position);
  return count;
}

/// Returns the first position in the ring that no later position has overwritten.
std::size_t KeyValueCache::first_in_ring() const {
  return written_ - std::min(written_, ring_tokens());
}

bool KeyValueCache::can_truncate_to(std::size_t length) const {
  const std::size_t end = prefix_ + length;
  if (end > length_) return false;
  if (!rolling()) return true;
  // The next query sees the ring from this position on.
  const std::size_t oldest = std::max(order_.fixed * kPageTokens, end + 1 - std::min(end + 1, options_.window));
  return oldest >= end || oldest >= first_in_ring();
}

void KeyValueCache::truncate(std::size_t length) {
  assert(can_truncate_to(length));
  length_ = prefix_ + length;
  if (rolling()) {
    if (length_ <= order_.fixed * kPageTokens) written_ = length_;  // nothing in the ring is visible any more
    return;
  }
  for (LayerPages& pages : layers_) pages.keep_first(pages_for(length_));
}

/// Calls visit(i, pages) for the i-th layer that has keys and values.
template <typename Visit>
void KeyValueCache::for_each_paged_layer(const Visit& visit) const {
  std::size_t i = 0;
  for (const LayerPages& pages : layers_) {
    if (pages.layout().bytes() > 0) visit(i++, pages);
  }
}

std::size_t KeyValueCache::paged_layers() const {
  std::size_t count = 0;
  for_each_paged_layer([&](std::size_t, const LayerPages&) { ++count; });
  return count;
}

std::vector<StoredPage> KeyValueCache::share_page(std::size_t index) const {
  assert(!rolling() && index * kPageTokens < length_);
  std::vector<StoredPage> page;
  for_each_paged_layer([&](std::size_t, const LayerPages& pages) { page.push_back(pages.share(index)); });
  return page;
}

bool KeyValueCache::allows_page(std::span<const std::uint32_t> fp16_bytes) const {
  if (fp16_bytes.size() != paged_layers()) return false;
  bool allowed = true;
  for_each_paged_layer(
      [&](std::size_t i, const LayerPages& pages) { allowed = allowed && pages.allows_fp16_bytes(fp16_bytes[i]); });
  return allowed;
}

std::vector<StoredPage> KeyValueCache::make_page(std::span<const std::uint32_t> fp16_bytes) const {
  assert(allows_page(fp16_bytes));
  std::vector<StoredPage> page;
  for_each_paged_layer(
      [&](std::size_t i, const LayerPages& pages) { page.push_back(pages.make_stored(fp16_bytes[i])); });
  return page;
}

bool KeyValueCache::is_consistent(std::span<const StoredPage> page) const {
  bool consistent = true;
  for_each_paged_layer(
      [&](std::size_t i, const LayerPages& pages) { consistent = consistent && pages.is_consistent(page[i]); });
  return consistent;
}

void KeyValueCache::adopt_page(std::size_t index, std::vector<StoredPage> page, std::size_t length) {
  const std::size_t position = prefix_ + length;
  assert(!rolling() && position <= options_.capacity && pages_for(position) == index + 1);
  std::size_t i = 0;
  for (LayerPages& pages : layers_) {
    if (pages.layout().bytes() > 0) pages.adopt(index, std::move(page[i++]));
  }
  length_ = position;
  written_ = std::max(written_, length_);
}

KeyValueCache KeyValueCache::fork(std::size_t length) const {
  KeyValueCache copy = *this;
  copy.truncate(length);
  return copy;
}

}  // namespace ballast::model
