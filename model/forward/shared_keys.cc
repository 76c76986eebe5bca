#include "model/forward/shared_keys.h"

#include <algorithm>

#include "model/mixer/mixer_kind.h"

namespace ballast::model {

SharedKeys::SharedKeys(const ModelSpec& spec) {
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    read_by_.push_back(cache_layer(spec, layer));
    const AttentionSpec* attention = spec.layers[layer].attention();
    if (attention == nullptr || !attention->shares_keys) continue;
    sources_.push_back({.layer = layer, .cache = cache_shape(spec.layers[layer]), .keys = row_size_});
    row_size_ += sources_.back().cache.size();
  }
}

const SharedKeys::Source* SharedKeys::find(std::size_t layer) const {
  const auto it = std::ranges::find(sources_, layer, &Source::layer);
  return it == sources_.end() ? nullptr : &*it;
}

void SharedKeys::keep(std::size_t layer, const BlockActivations& activations, std::span<float> rows) const {
  const Source* source = find(layer);
  if (source == nullptr) return;
  const std::size_t keys = source->values() - source->keys;
  const std::size_t values = source->cache.kv_heads * source->cache.value_size;
  for (std::size_t token = 0; token < rows.size() / row_size_; ++token) {
    float* row = rows.data() + token * row_size_;
    std::copy_n(activations.keys.rows + token * activations.keys.stride, keys, row + source->keys);
    std::copy_n(activations.values.rows + token * activations.values.stride, values, row + source->values());
  }
}

void SharedKeys::give(std::size_t layer, std::span<const float> rows, SequenceState& state) const {
  const std::size_t from = read_by_[layer];
  if (from == layer || rows.empty()) return;
  const Source& source = *find(from);
  state.cache().append(0, rows.data() + source.keys, row_size_, rows.data() + source.values(), row_size_,
                       rows.size() / row_size_);
}

}  // namespace ballast::model
