#include "model/key_value_cache.h"

#include <cassert>

namespace ballast::model {

KeyValueCache::KeyValueCache(const ModelSpec& spec, std::size_t layers, std::size_t capacity, kernels::FloatType type)
    : shape_{.heads = spec.heads, .kv_heads = spec.kv_heads, .head_size = spec.head_size},
      layers_(layers),
      capacity_(capacity),
      type_(type),
      keys_(layers * layer_bytes()),
      values_(layers * layer_bytes()) {}

std::size_t KeyValueCache::layer_bytes() const {
  return shape_.kv_heads * capacity_ * shape_.head_size * kernels::float_type_bytes(type_);
}

std::size_t KeyValueCache::bytes_in_use() const {
  return 2 * layers_ * shape_.kv_heads * length_ * shape_.head_size * kernels::float_type_bytes(type_);
}

void KeyValueCache::append(std::size_t layer, const float* keys, const float* values, std::size_t stride,
                           std::size_t count) {
  assert(layer < layers_ && length_ + count <= capacity_);
  kernels::append_key_values(keys, values, stride, count, shape_, type_, capacity_, length_,
                             keys_.data() + layer * layer_bytes(), values_.data() + layer * layer_bytes());
}

kernels::KeyValueView KeyValueCache::view(std::size_t layer, std::size_t appended) const {
  return {.keys = keys_.data() + layer * layer_bytes(),
          .values = values_.data() + layer * layer_bytes(),
          .type = type_,
          .capacity = capacity_,
          .length = length_ + appended};
}

}  // namespace ballast::model
