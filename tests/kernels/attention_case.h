// Random attention problems over caches of every kind.
#ifndef BALLAST_TESTS_KERNELS_ATTENTION_CASE_H_
#define BALLAST_TESTS_KERNELS_ATTENTION_CASE_H_

#include <limits>
#include <ostream>
#include <span>
#include <vector>

#include "kernel_cases.h"
#include "kernels/attention.h"

namespace ballast::kernels {

struct AttentionCase {
  std::size_t heads = 1;
  std::size_t kv_heads = 1;
  std::size_t head_size = 8;
  std::size_t queries = 1;
  std::size_t length = 1;
  std::size_t value_size = 0;
  CacheType type = CacheType::kF32;
  float spread = 1.0F;  ///< of the queries
  bool causal = true;
  std::size_t window = 0;
  std::size_t sinks = 0;
  std::size_t ring = 0;        ///< 0: all positions are kept; else the ring's capacity, with the sinks beside it
  std::size_t flag_every = 0;  ///< INT8: every so many tokens, one is kept in F16
};

inline std::ostream& operator<<(std::ostream& out, const AttentionCase& c) {
  return out << c.heads << '/' << c.kv_heads << " heads of " << c.head_size << '/' << c.value_size << ", " << c.queries
             << " queries of " << c.length << ", type " << static_cast<int>(c.type) << ", window " << c.window << '+'
             << c.sinks << ", ring " << c.ring << ", flags " << c.flag_every << ", spread " << c.spread;
}

struct AttentionResult {
  std::vector<float> out;
  std::vector<double> share;
};

/// Keys or values as a cache holds them; slots that no position has written hold NaN or, in INT8, a NaN scale.
class CacheCase {
 public:
  CacheCase(const AttentionCase& c, std::size_t size, unsigned seed)
      : heads_(c.kv_heads),
        size_(size),
        type_(c.type),
        capacity_(c.ring == 0 ? c.length + 3 : c.ring),
        values_(random_floats(c.length * c.kv_heads * size, seed)),
        rows_(encoded(c.type, capacity_, c.ring == 0 ? 0 : c.sinks, c.length)),
        sinks_(encoded(sink_type(), c.sinks, 0, std::min(c.sinks, c.length))) {
    if (c.type != CacheType::kInt8) return;
    exact_rows_.assign(capacity_, -1);
    if (c.flag_every == 0) return;
    std::vector<float> kept;
    const std::size_t first = c.length - std::min(c.length, capacity_);
    for (std::size_t position = first; position < c.length; position += c.flag_every) {
      exact_rows_[position % capacity_] = static_cast<std::int32_t>(exact_.size() / (heads_ * size_));
      for (const float value : row(position)) exact_.push_back(reference::float_to_half(value, FloatType::kF16));
    }
  }

  CachedRows view() const {
    CachedRows rows = rows_.view(type_, capacity_);
    if (type_ == CacheType::kInt8) rows.exact_rows = exact_rows_.data();
    rows.exact = exact_.data();
    return rows;
  }
  CachedRows sink_view(std::size_t sinks) const { return sinks_.view(sink_type(), sinks); }

 private:
  struct Encoded {
    std::vector<char> bytes;
    std::vector<float> scales;

    CachedRows view(CacheType type, std::size_t capacity) const {
      return {.data = bytes.data() + 1,  // an odd address
              .type = type,
              .capacity = capacity,
              .scales = scales.empty() ? nullptr : scales.data(),
              .exact_rows = nullptr,
              .exact = nullptr};
    }
  };

  CacheType sink_type() const { return type_ == CacheType::kInt8 ? CacheType::kF16 : type_; }

  std::span<const float> row(std::size_t position) const {
    return std::span(values_).subspan(position * heads_ * size_, heads_ * size_);
  }

  Encoded encoded(CacheType type, std::size_t capacity, std::size_t first, std::size_t end) const {
    Encoded result;
    const std::size_t bytes = cache_type_bytes(type);
    result.bytes.assign(1 + heads_ * capacity * size_ * bytes, '\xff');
    if (type == CacheType::kInt8) result.scales.assign(heads_ * capacity, NAN);
    for (std::size_t position = first; position < end; ++position) {
      for (std::size_t head = 0; head < heads_; ++head) {
        const std::size_t at = head * capacity + position % capacity;
        encode(row(position).subspan(head * size_, size_), type, result.bytes.data() + 1 + at * size_ * bytes,
               result.scales.empty() ? nullptr : &result.scales[at]);
      }
    }
    return result;
  }

  static void encode(std::span<const float> values, CacheType type, char* dst, float* scale) {
    if (type == CacheType::kInt8) {
      const reference::QuantizedActivations codes = reference::quantize(
          values.data(), 1, {.cols = values.size(), .group_size = values.size(), .outlier_columns = {}});
      std::memcpy(dst, codes.codes.data(), values.size());
      *scale = codes.scales[0];
    } else {
      const EncodedFloats encoded(std::vector<float>(values.begin(), values.end()), float_type(type));
      std::memcpy(dst, encoded.data(), values.size() * cache_type_bytes(type));
    }
  }

  std::size_t heads_;
  std::size_t size_;
  CacheType type_;
  std::size_t capacity_;
  std::vector<float> values_;  ///< [length][heads][size]
  Encoded rows_;
  Encoded sinks_;
  std::vector<std::int32_t> exact_rows_;
  std::vector<std::uint16_t> exact_;
};

/// Queries, a cache, and room for results.
struct AttentionData {
  AttentionCase c;
  AttentionShape shape;
  std::size_t q_stride;
  std::vector<float> q, sink_q;
  CacheCase keys, values;

  AttentionData(const AttentionCase& attention_case, unsigned seed)
      : c(attention_case),
        shape{.heads = c.heads,
              .kv_heads = c.kv_heads,
              .head_size = c.head_size,
              .scale = 0.7F / std::sqrt(static_cast<float>(c.head_size)),
              .value_size = c.value_size,
              .causal = c.causal,
              .window = c.window,
              .sinks = c.sinks},
        q_stride(c.heads * c.head_size + 5),
        q(random_floats(c.queries * q_stride, seed, c.spread)),
        sink_q(random_floats(c.queries * c.heads * c.head_size, seed + 3, c.spread)),
        keys(c, c.head_size, seed + 1),
        values(c, shape.output_size(), seed + 2) {}

  AttentionSequence sequence(AttentionResult& result) const {
    result.out.assign(c.queries * c.heads * shape.output_size(), 0.0F);
    result.share.assign(c.heads, -1.0);
    AttentionSequence sequence = {.q = q.data(),
                                  .q_stride = q_stride,
                                  .queries = c.queries,
                                  .kv = {.keys = keys.view(), .values = values.view(), .length = c.length},
                                  .out = result.out.data(),
                                  .first_token_share = result.share.data()};
    if (c.ring != 0 && c.sinks != 0) {
      sequence.kv.sink_keys = keys.sink_view(c.sinks);
      sequence.kv.sink_values = values.sink_view(c.sinks);
      sequence.sink_q = sink_q.data();
      sequence.sink_q_stride = c.heads * c.head_size;
    }
    return sequence;
  }

  AttentionResult result() const {
    AttentionResult result;
    const AttentionSequence one = sequence(result);
    attention(shape, {&one, 1});
    return result;
  }

  AttentionResult reference_result() const {
    AttentionResult result;
    reference::attention(shape, sequence(result));
    return result;
  }
};

}  // namespace ballast::kernels

#endif  // BALLAST_TESTS_KERNELS_ATTENTION_CASE_H_
