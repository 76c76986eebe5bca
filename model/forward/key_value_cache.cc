#include "model/forward/key_value_cache.h"

#include <algorithm>
#include <cassert>

#include "kernels/attention/key_bias.h"
#include "kernels/rope.h"

namespace ballast::model {

namespace {

constexpr std::int32_t kNotFlagged = -1;

}  // namespace

KeyValueCache::KeyValueCache(const CacheShape& shape, const KeyValueCacheOptions& options)
    : shape_(shape),
      options_(options),
      // The first query of an append still sees the window before it when the last token has been stored.
      capacity_(options.window == 0 ? options.capacity : options.window + options.largest_append),
      keys_(make_store(kernels::RowKind::kKeys, shape.key_size)),
      values_(make_store(kernels::RowKind::kValues, shape.value_size)),
      flagged_rows_(int8() ? options.layers * capacity_ : 0, kNotFlagged),
      places_taken_(int8() ? options.layers : 0) {
  assert(rolling() ? options.largest_append > 0 : options.sinks == 0);
}

KeyValueCache::Store KeyValueCache::make_store(kernels::RowKind kind, std::size_t size) const {
  Store store;
  store.kind = kind;
  store.size = size;
  store.row_bytes = kernels::stored_row_bytes(options_.type, kind, size);
  store.sink_bytes = kernels::stored_row_bytes(sink_type(), kind, size);
  store.rows.resize(options_.layers * layer_rows() * store.row_bytes);
  store.sinks.resize(options_.layers * shape_.kv_heads * options_.sinks * store.sink_bytes);
  if (int8()) {
    store.scales.resize(options_.layers * layer_rows());
    store.flagged.resize(options_.layers);
  }
  return store;
}

std::size_t KeyValueCache::Store::bytes() const {
  std::size_t total = rows.size() + scales.size() * sizeof(float) + sinks.size();
  for (const auto& layer : flagged) total += layer.size() * sizeof(std::uint16_t);
  return total;
}

std::size_t KeyValueCache::memory_bytes() const {
  return keys_.bytes() + values_.bytes() + flagged_rows_.size() * sizeof(std::int32_t);
}

std::size_t KeyValueCache::bytes_in_use() const {
  const std::size_t sinks = std::min(length_, options_.sinks);
  const std::size_t others = rolling() ? std::min(length_ - sinks, options_.window) : length_;
  const std::size_t scale_bytes = int8() ? 2 * sizeof(float) : 0;
  return options_.layers * shape_.kv_heads *
         (others * (keys_.row_bytes + values_.row_bytes + scale_bytes) +
          sinks * (keys_.sink_bytes + values_.sink_bytes));
}

std::size_t KeyValueCache::slot(std::size_t position) const {
  return rolling() ? std::min(position, options_.sinks + options_.window - 1) : position;
}

kernels::WritableRows KeyValueCache::writable_rows(Store& store, std::size_t layer) const {
  const std::size_t first_row = layer * layer_rows();
  return {.data = store.rows.data() + first_row * store.row_bytes,
          .type = options_.type,
          .kind = store.kind,
          .scales = int8() ? store.scales.data() + first_row : nullptr,
          .heads = shape_.kv_heads,
          .capacity = capacity_,
          .size = store.size};
}

kernels::WritableRows KeyValueCache::writable_sinks(Store& store, std::size_t layer) const {
  const std::size_t first_row = layer * shape_.kv_heads * options_.sinks;
  return {.data = store.sinks.data() + first_row * store.sink_bytes,
          .type = sink_type(),
          .kind = store.kind,
          .scales = nullptr,
          .heads = shape_.kv_heads,
          .capacity = options_.sinks,
          .size = store.size};
}

kernels::CachedRows KeyValueCache::view_rows(const Store& store, std::size_t layer) const {
  const std::size_t first_row = layer * layer_rows();
  return {.data = store.rows.data() + first_row * store.row_bytes,
          .type = options_.type,
          .kind = store.kind,
          .capacity = capacity_,
          .scales = int8() ? store.scales.data() + first_row : nullptr,
          .exact_rows = int8() ? flagged_rows_.data() + layer * capacity_ : nullptr,
          .exact = int8() && !store.flagged[layer].empty() ? store.flagged[layer].data() : nullptr};
}

kernels::CachedRows KeyValueCache::view_sinks(const Store& store, std::size_t layer) const {
  if (options_.sinks == 0) return {};
  const std::size_t first_row = layer * shape_.kv_heads * options_.sinks;
  return {.data = store.sinks.data() + first_row * store.sink_bytes,
          .type = sink_type(),
          .kind = store.kind,
          .capacity = options_.sinks,
          .scales = nullptr,
          .exact_rows = nullptr,
          .exact = nullptr};
}

kernels::KeyValueView KeyValueCache::view(std::size_t layer, std::size_t appended) const {
  return {.keys = view_rows(keys_, layer),
          .values = view_rows(values_, layer),
          .sink_keys = view_sinks(keys_, layer),
          .sink_values = view_sinks(values_, layer),
          .length = length_ + appended};
}

/// How many of the next `count` tokens are sinks of a rolling cache.
std::size_t KeyValueCache::sinks_among(std::size_t count) const {
  return std::min(count, options_.sinks - std::min(options_.sinks, length_));
}

/// Those of `count` rows that are sinks.
void KeyValueCache::append_sinks(Store& store, std::size_t layer, const float* src, std::size_t stride,
                                 std::size_t count) {
  const std::size_t sinks = sinks_among(count);
  if (sinks != 0) kernels::store_rows(src, stride, sinks, length_, writable_sinks(store, layer));
}

/// Those that are not.
void KeyValueCache::append_rows(Store& store, std::size_t layer, const float* src, std::size_t stride,
                                std::size_t count) {
  const std::size_t sinks = sinks_among(count);
  kernels::store_rows(src + sinks * stride, stride, count - sinks, length_ + sinks, writable_rows(store, layer));
}

/// The keys, [count][kv_heads * key_size] and dense, less the bias at each position.
const float* KeyValueCache::without_bias(const float* keys, std::size_t stride, std::size_t count,
                                         const AppendedBias& bias) {
  const std::size_t size = shape_.kv_heads * shape_.key_size;
  unbiased_.resize(count * size);
  for (std::size_t i = 0; i < count; ++i) std::copy_n(bias.bias.values, size, unbiased_.data() + i * size);
  const kernels::KeyRotation& rotation = *bias.bias.rotation;
  kernels::rope(unbiased_.data() + rotation.offset(), count, shape_.kv_heads, shape_.key_size, 2 * rotation.pairs(),
                size, bias.cos, bias.sin);
  for (std::size_t i = 0; i < count; ++i) {
    float* row = unbiased_.data() + i * size;
    for (std::size_t c = 0; c < size; ++c) row[c] = keys[i * stride + c] - row[c];
  }
  return unbiased_.data();
}

void KeyValueCache::append(std::size_t layer, const float* keys, std::size_t key_stride, const float* values,
                           std::size_t value_stride, std::size_t count, std::span<const std::uint8_t> flags,
                           const AppendedBias& bias) {
  assert(layer < options_.layers && count <= room());
  assert(flags.empty() || flags.size() == count);
  append_sinks(keys_, layer, keys, key_stride, count);
  append_sinks(values_, layer, values, value_stride, count);
  if (int8() && bias.bias.values != nullptr) {
    append_rows(keys_, layer, without_bias(keys, key_stride, count, bias), shape_.kv_heads * shape_.key_size, count);
  } else {
    append_rows(keys_, layer, keys, key_stride, count);
  }
  append_rows(values_, layer, values, value_stride, count);
  written_ = std::max(written_, length_ + count);
  if (!int8()) return;
  for (std::size_t i = sinks_among(count); i < count; ++i) release_flagged(layer, length_ + i);
  if (flags.empty()) return;
  for (std::size_t i = sinks_among(count); i < count; ++i) {
    if (flags[i] != 0) keep_flagged(layer, length_ + i, keys + i * key_stride, values + i * value_stride);
  }
}

void KeyValueCache::release_flagged(std::size_t layer, std::size_t position) {
  std::int32_t& row = flagged_rows(layer)[position % capacity_];
  if (row == kNotFlagged) return;
  places_taken_[layer][static_cast<std::size_t>(row)] = 0;
  row = kNotFlagged;
}

void KeyValueCache::keep_flagged(std::size_t layer, std::size_t position, const float* keys, const float* values) {
  std::vector<std::uint8_t>& taken = places_taken_[layer];
  const auto row = static_cast<std::size_t>(std::find(taken.begin(), taken.end(), 0) - taken.begin());
  if (row == taken.size()) taken.push_back(0);
  taken[row] = 1;
  flagged_rows(layer)[position % capacity_] = static_cast<std::int32_t>(row);
  const auto keep = [&](Store& store, const float* src) {
    const std::size_t values_per_token = shape_.kv_heads * store.size;
    std::vector<std::uint16_t>& rows = store.flagged[layer];
    rows.resize(std::max(rows.size(), (row + 1) * values_per_token));
    kernels::from_float(src, values_per_token, kernels::FloatType::kF16, rows.data() + row * values_per_token);
  };
  keep(keys_, keys);
  keep(values_, values);
}

std::size_t KeyValueCache::flagged_tokens(std::size_t layer) const {
  return int8() ? static_cast<std::size_t>(std::ranges::count(places_taken_[layer], 1)) : 0;
}

void KeyValueCache::advance(std::size_t count) {
  length_ += count;
  written_ = std::max(written_, length_);
}

bool KeyValueCache::can_truncate_to(std::size_t length) const {
  const std::size_t end = prefix_ + length;
  if (end > length_) return false;
  if (!rolling()) return true;
  // The ring still holds a position unless one a capacity later was written. The next query sees back to this one:
  const std::size_t seen = end + 1 - std::min(end + 1, options_.window);
  const std::size_t oldest = std::max(options_.sinks, seen);
  return oldest >= end || oldest + capacity_ >= written_;
}

void KeyValueCache::truncate(std::size_t length) {
  assert(can_truncate_to(length));
  const std::size_t end = prefix_ + length;
  if (int8()) {
    for (std::size_t layer = 0; layer < options_.layers; ++layer) {
      const std::size_t first = std::max(end, options_.sinks);
      for (std::size_t position = first; position < length_; ++position) release_flagged(layer, position);
    }
  }
  length_ = end;
}

}  // namespace ballast::model
