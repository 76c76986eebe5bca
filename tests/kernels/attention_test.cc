#include "kernels/attention.h"

#include "kernel_cases.h"

namespace ballast::kernels {
namespace {

struct AttentionCase {
  std::size_t heads, kv_heads, head_size, queries, length;
};

const AttentionCase kCases[] = {{1, 1, 1, 1, 1},    {1, 1, 2, 3, 3},      {3, 1, 64, 1, 300},  {9, 3, 64, 40, 40},
                                {4, 2, 65, 7, 131}, {2, 2, 31, 130, 257}, {6, 3, 33, 33, 128}, {8, 1, 16, 20, 150},
                                {100, 1, 8, 2, 5},  {4, 4, 128, 5, 129}};

/// Queries, a cache larger than it is filled, and room for results; unused positions hold NaN.
struct AttentionData {
  AttentionShape shape;
  std::size_t queries, length, capacity, q_stride;
  FloatType type;
  std::vector<float> q;
  EncodedFloats keys, values;

  AttentionData(const AttentionCase& c, FloatType cache_type, float spread, unsigned seed)
      : shape{c.heads, c.kv_heads, c.head_size, 0.7F / std::sqrt(static_cast<float>(c.head_size))},
        queries(c.queries),
        length(c.length),
        capacity(c.length + 3),
        q_stride(c.heads * c.head_size + 5),
        type(cache_type),
        q(random_floats(c.queries * q_stride, seed, spread)),
        keys(cache(seed + 1), cache_type),
        values(cache(seed + 2), cache_type) {}

  std::vector<float> cache(unsigned seed) const {
    std::vector<float> all = random_floats(shape.kv_heads * capacity * shape.head_size, seed);
    for (std::size_t h = 0; h < shape.kv_heads; ++h) {
      for (std::size_t i = length * shape.head_size; i < capacity * shape.head_size; ++i) {
        all[h * capacity * shape.head_size + i] = INFINITY;
      }
    }
    return all;
  }

  AttentionSequence sequence(std::vector<float>& out, std::vector<double>& share) const {
    out.assign(queries * shape.heads * shape.head_size, 0.0F);
    share.assign(shape.heads, -1.0);
    return {q.data(),   q_stride,    queries, {keys.data(), values.data(), type, capacity, length},
            out.data(), share.data()};
  }
};

TEST_CASE("attention agrees with the reference on every target, for every shape and cache type") {
  for (const FloatType type : {FloatType::kF32, FloatType::kF16, FloatType::kBF16}) {
    for (const AttentionCase& c : kCases) {
      for (const float spread : {1.0F, 300.0F}) {  // 300: softmax picks single keys, and scores reach hundreds
        const AttentionData data(c, type, spread, 11);
        std::vector<float> expected, actual;
        std::vector<double> expected_share, actual_share;
        reference::attention(data.shape, data.sequence(expected, expected_share));
        for_every_target([&] {
          CAPTURE(c.head_size);
          CAPTURE(c.queries);
          CAPTURE(c.length);
          const AttentionSequence sequence = data.sequence(actual, actual_share);
          attention(data.shape, {&sequence, 1});
          // A score's rounding, about 2^-24 of it times sqrt(head_size), becomes the weight's relative error.
          const double budget = 2e-6 + 2e-6 * spread;
          CHECK(relative_error(actual, expected) <= budget);
          for (std::size_t h = 0; h < c.heads; ++h) {
            CHECK(std::fabs(actual_share[h] - expected_share[h]) <= budget * static_cast<double>(c.queries));
          }
        });
      }
    }
  }
}

TEST_CASE("several sequences of different lengths are independent of each other and of the number of threads") {
  const AttentionData a({9, 3, 64, 70, 70}, FloatType::kF16, 1.0F, 21);
  const AttentionData b({9, 3, 64, 1, 200}, FloatType::kF16, 1.0F, 31);
  for_every_target([&] {
    const auto run = [&] {
      std::vector<float> out_a, out_b;
      std::vector<double> share_a, share_b;
      const AttentionSequence sequences[] = {a.sequence(out_a, share_a), b.sequence(out_b, share_b)};
      attention(a.shape, sequences);
      out_a.insert(out_a.end(), out_b.begin(), out_b.end());
      for (const double share : share_a) out_a.push_back(static_cast<float>(share));
      return out_a;
    };
    const std::vector<float> one = with_threads(1, run);
    CHECK(one == with_threads(2, run));
    CHECK(one == with_threads(5, run));
    std::vector<float> alone;
    std::vector<double> share;
    const AttentionSequence sequence = a.sequence(alone, share);
    attention(a.shape, {&sequence, 1});
    CHECK(std::equal(alone.begin(), alone.end(), one.begin()));
  });
}

TEST_CASE("keys and values are appended at their positions and leave the others alone") {
  const AttentionShape shape{4, 2, 5, 1.0F};
  const std::size_t capacity = 7, count = 3, first = 2, stride = 13;
  const std::vector<float> keys = random_floats(count * stride, 1), values = random_floats(count * stride, 2);
  for_every_target([&] {
    for (const FloatType type : {FloatType::kF32, FloatType::kF16, FloatType::kBF16}) {
      const std::vector<float> old(2 * capacity * 5, 8.0F);
      EncodedFloats key_cache(old, type), value_cache(old, type);
      append_key_values(keys.data(), values.data(), stride, count, shape, type, capacity, first, key_cache.bytes.data(),
                        value_cache.bytes.data());
      std::vector<float> expected_keys = old, expected_values = old;
      for (std::size_t h = 0; h < 2; ++h) {
        for (std::size_t i = 0; i < count; ++i) {
          for (std::size_t c = 0; c < 5; ++c) {
            expected_keys[(h * capacity + first + i) * 5 + c] = keys[i * stride + h * 5 + c];
            expected_values[(h * capacity + first + i) * 5 + c] = values[i * stride + h * 5 + c];
          }
        }
      }
      CHECK(key_cache.bytes == EncodedFloats(expected_keys, type).bytes);
      CHECK(value_cache.bytes == EncodedFloats(expected_values, type).bytes);
    }
  });
}

}  // namespace
}  // namespace ballast::kernels
