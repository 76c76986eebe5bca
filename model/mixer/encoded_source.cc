#include "model/mixer/encoded_source.h"

#include "model/mixer/mixer_kind.h"

namespace ballast::model {

namespace {

std::vector<CacheShape> source_shapes(const ModelSpec& spec) {
  std::vector<CacheShape> shapes;
  for (const LayerSpec& layer : spec.layers) shapes.push_back(source_shape(layer));
  return shapes;
}

}  // namespace

EncodedSource::EncodedSource(const ModelSpec& spec, std::span<const float> rows, kernels::CacheType type)
    : rows_(rows.begin(), rows.end()),
      tokens_(rows.size() / spec.hidden_size),
      cache_(source_shapes(spec),
             {.type = type == kernels::CacheType::kInt8 ? kernels::CacheType::kF16 : type, .capacity = tokens_}),
      has_keys_(spec.layers.size()) {}

EncodedSource::EncodedSource(const ModelSpec& spec, std::size_t layer, std::span<const float> rows)
    : rows_(rows.begin(), rows.end()),
      tokens_(rows.size() / spec.hidden_size),
      cache_({source_shape(spec.layers[layer])}, {.type = kernels::CacheType::kF32, .capacity = tokens_}),
      has_keys_(1) {}

void EncodedSource::set_keys(std::size_t layer, const float* keys, const float* values, std::size_t stride) {
  cache_.append(layer, keys, stride, values, stride, tokens_);
  has_keys_[layer] = true;
}

}  // namespace ballast::model
