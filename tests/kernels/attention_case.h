// Random attention problems over caches of every kind.
#ifndef BALLAST_TESTS_KERNELS_ATTENTION_CASE_H_
#define BALLAST_TESTS_KERNELS_ATTENTION_CASE_H_

#include <algorithm>
#include <limits>
#include <ostream>
#include <span>
#include <vector>

#include "kernel_cases.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/key_bias.h"

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
  float key_bias = 0.0F;       ///< INT8: spread of a bias that keys lack; the last of each head is not rotated
};

inline std::ostream& operator<<(std::ostream& out, const AttentionCase& c) {
  return out << c.heads << '/' << c.kv_heads << " heads of " << c.head_size << '/' << c.value_size << ", " << c.queries
             << " queries of " << c.length << ", type " << static_cast<int>(c.type) << ", window " << c.window << '+'
             << c.sinks << ", ring " << c.ring << ", flags " << c.flag_every << ", bias " << c.key_bias << ", spread "
             << c.spread;
}

struct AttentionResult {
  std::vector<float> out;
  std::vector<double> share;
};

/// Keys or values as a cache holds them; slots that no position has written hold NaN or, in INT8, a NaN scale.
class CacheCase {
 public:
  CacheCase(const AttentionCase& c, RowKind kind, std::size_t size, unsigned seed)
      : heads_(c.kv_heads),
        kind_(kind),
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
    CachedRows rows = rows_.view(type_, kind_, capacity_);
    if (type_ == CacheType::kInt8) rows.exact_rows = exact_rows_.data();
    rows.exact = exact_.data();
    return rows;
  }
  /// Gives all INT8 rows one scale.
  void set_scales(float scale) { std::fill(rows_.scales.begin(), rows_.scales.end(), scale); }

  CachedRows sink_view(std::size_t sinks) const { return sinks_.view(sink_type(), kind_, sinks); }

 private:
  struct Encoded {
    std::vector<char> bytes;
    std::vector<float> scales;

    CachedRows view(CacheType type, RowKind kind, std::size_t capacity) const {
      return {.data = bytes.data() + 1,  // an odd address
              .type = type,
              .kind = kind,
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
    const std::size_t slots = stored_slots(type, capacity);
    const std::size_t head_bytes = slots * stored_row_bytes(type, kind_, size_);
    result.bytes.assign(1 + heads_ * head_bytes, '\xff');
    if (type == CacheType::kInt8) result.scales.assign(heads_ * slots, NAN);
    for (std::size_t position = first; position < end; ++position) {
      for (std::size_t head = 0; head < heads_; ++head) {
        encode(row(position).subspan(head * size_, size_), type, position % capacity,
               result.bytes.data() + 1 + head * head_bytes,
               result.scales.empty() ? nullptr : &result.scales[head * slots]);
      }
    }
    return result;
  }

  void encode(std::span<const float> values, CacheType type, std::size_t slot, char* head, float* scales) const {
    if (type == CacheType::kInt8) {
      std::vector<float> row(values.begin(), values.end());
      if (kind_ == RowKind::kKeys) row = reference::rotate_head(values.data(), values.size());
      const reference::IntegerActivations codes = reference::quantize(
          row.data(), 1, {.cols = values.size(), .group_size = values.size(), .outlier_columns = {}});
      for (std::size_t c = 0; c < stored_size(type, kind_, size_); ++c) {
        const int code = c < values.size() ? codes.codes[c] : 0;
        head[code_index(kind_, size_, slot, c)] = static_cast<char>(kind_ == RowKind::kKeys ? code + 128 : code);
      }
      scales[slot] = codes.scales[0];
    } else {
      const EncodedFloats encoded(std::vector<float>(values.begin(), values.end()), float_type(type));
      const std::size_t bytes = stored_row_bytes(type, kind_, size_);
      std::memcpy(head + slot * bytes, encoded.data(), bytes);
    }
  }

  std::size_t heads_;
  RowKind kind_;
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
  std::vector<float> q, sink_q, bias;
  KeyRotation rotation;
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
        bias(random_floats(c.kv_heads * c.head_size, seed + 4, c.key_bias)),
        rotation(frequencies((c.head_size - 1) / 2), 1.25, (c.head_size - 1) % 2),
        keys(c, RowKind::kKeys, c.head_size, seed + 1),
        values(c, RowKind::kValues, shape.output_size(), seed + 2) {}

  AttentionSequence sequence(AttentionResult& result) const {
    result.out.assign(c.queries * c.heads * shape.output_size(), 0.0F);
    result.share.assign(c.heads, -1.0);
    AttentionSequence sequence = {.q = q.data(),
                                  .q_stride = q_stride,
                                  .queries = c.queries,
                                  .kv = {.keys = keys.view(), .values = values.view(), .length = c.length},
                                  .out = result.out.data(),
                                  .first_token_share = result.share.data()};
    if (c.key_bias != 0.0F) sequence.kv.key_bias = {bias.data(), &rotation};
    if (c.ring != 0 && c.sinks != 0) {
      sequence.kv.sink_keys = keys.sink_view(c.sinks);
      sequence.kv.sink_values = values.sink_view(c.sinks);
      sequence.sink_q = sink_q.data();
      sequence.sink_q_stride = c.heads * c.head_size;
    }
    return sequence;
  }

  static std::vector<double> frequencies(std::size_t pairs) {
    std::vector<double> result;
    for (std::size_t j = 0; j < pairs; ++j) {
      result.push_back(std::pow(1e-4, static_cast<double>(j) / static_cast<double>(pairs)));
    }
    return result;
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
