#include "model/key_value_cache.h"

#include <doctest/doctest.h>

#include <vector>

namespace ballast::model {
namespace {

ModelSpec small_spec() {
  ModelSpec spec;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.head_size = 3;
  return spec;
}

TEST_CASE("a cache gives back what was appended, per layer and head") {
  constexpr std::size_t kCapacity = 5;
  KeyValueCache cache(small_spec(), 2, kCapacity, kernels::FloatType::kF32);
  std::vector<float> keys(4 * 10);
  std::vector<float> values(4 * 10);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i] = static_cast<float>(i);
    values[i] = -static_cast<float>(i);
  }
  for (const std::size_t layer : {0, 1}) cache.append(layer, keys.data(), values.data(), 10, 1);
  cache.advance(1);
  cache.append(1, keys.data() + 10, values.data() + 10, 10, 3);
  CHECK(cache.length() == 1);
  CHECK(cache.view(0, 0).length == 1);
  const kernels::KeyValueView view = cache.view(1, 3);
  CHECK(view.length == 4);
  CHECK(view.capacity == kCapacity);
  const auto* stored_keys = static_cast<const float*>(view.keys);
  const auto* stored_values = static_cast<const float*>(view.values);
  for (std::size_t head = 0; head < 2; ++head) {
    for (std::size_t token = 0; token < 4; ++token) {
      for (std::size_t c = 0; c < 3; ++c) {
        const std::size_t at = (head * kCapacity + token) * 3 + c;
        CHECK(stored_keys[at] == keys[token * 10 + head * 3 + c]);
        CHECK(stored_values[at] == values[token * 10 + head * 3 + c]);
      }
    }
  }
}

TEST_CASE("a cache counts the bytes of the tokens that it holds") {
  KeyValueCache cache(small_spec(), 7, 100, kernels::FloatType::kF16);
  CHECK(cache.bytes_in_use() == 0);
  cache.advance(10);
  CHECK(cache.bytes_in_use() == 2 * 7 * 2 * 10 * 3 * 2);
  cache.truncate(1);
  CHECK(cache.length() == 1);
  CHECK(cache.bytes_in_use() == 2 * 7 * 2 * 1 * 3 * 2);
}

}  // namespace
}  // namespace ballast::model
