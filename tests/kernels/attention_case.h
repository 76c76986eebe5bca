// Random attention problems over caches of every kind.
#ifndef BALLAST_TESTS_KERNELS_ATTENTION_CASE_H_
#define BALLAST_TESTS_KERNELS_ATTENTION_CASE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
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
  std::size_t ring = 0;  ///< 0: all positions are stored; else the number of positions in a ring after the sinks' pages
  std::size_t fp16_every = 0;  ///< INT8: one token of this many is stored in F16; in a ring also all sinks
  float score_cap = 0.0F;
  bool sink_logits = false;
  bool slopes = false;          ///< scores fall with the distance
  std::size_t bias_reach = 0;   ///< not 0: scores have biases by distance
  bool score_bias = false;      ///< each score has a bias
  float key_bias = 0.0F;        ///< INT8: spread of a bias that keys lack; each head's last channel is not rotated
  bool values_in_keys = false;  ///< values are the first channels of the keys
  float others_times = 1.0F;    ///< with values_in_keys: factor on the other channels of the keys
};

inline std::ostream& operator<<(std::ostream& out, const AttentionCase& c) {
  return out << c.heads << '/' << c.kv_heads << " heads of " << c.head_size << '/' << c.value_size << ", " << c.queries
             << " queries of " << c.length << ", type " << static_cast<int>(c.type) << ", window " << c.window << '+'
             << c.sinks << ", ring " << c.ring << ", F16 every " << c.fp16_every << ", bias " << c.key_bias << ", cap "
             << c.score_cap << (c.sink_logits ? ", sink logits" : "") << (c.slopes ? ", slopes" : "") << ", biases to "
             << c.bias_reach << (c.score_bias ? ", score biases" : "") << ", spread " << c.spread
             << (c.values_in_keys ? ", values in keys" : "");
}

struct AttentionResult {
  std::vector<float> out;
  std::vector<double> share;
};

/// Keys and values in a cache; slots that no position has written hold NaN or, in INT8, NaN scales.
class CacheCase {
 public:
  CacheCase(const AttentionCase& c, std::size_t value_size, unsigned seed)
      : layout_(c.type, c.kv_heads, c.head_size, value_size, c.values_in_keys) {
    if (c.ring != 0) order_ = {.fixed = pages_for(c.sinks), .ring = pages_for(c.ring)};
    pages_.resize(c.ring == 0 ? pages_for(c.length + 3) : order_.fixed + order_.ring);
    for (Page& page : pages_) {
      page.bytes.assign(layout_.bytes(), std::byte{0xff});  // no slot has an F16 row
      page.fp16_rows.resize(kPageTokens * layout_.fp16_row_size());
      view_.push_back({.data = page.bytes.data(), .fp16_rows = page.fp16_rows.data()});
    }
    std::vector<float> keys = random_floats(c.length * c.kv_heads * c.head_size, seed);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (i % c.head_size >= value_size) keys[i] *= c.others_times;
    }
    const std::vector<float> values = random_floats(c.length * c.kv_heads * value_size, seed + 1);
    for (std::size_t position = 0; position < c.length; ++position) {
      const auto row_of = [&](const std::vector<float>& all) {
        return std::span(all).subspan(position * all.size() / c.length, all.size() / c.length);
      };
      const bool fp16 = (c.fp16_every != 0 && position % c.fp16_every == 0) || (c.ring != 0 && position < c.sinks);
      write(position, RowKind::kKeys, row_of(keys), fp16);
      if (!c.values_in_keys) write(position, RowKind::kValues, row_of(values), fp16);
    }
  }

  KeyValueView view(std::size_t length) const {
    return {.layout = &layout_, .pages = view_, .order = order_, .key_bias = {}, .length = length};
  }

  /// Gives all INT8 rows of values one scale.
  void set_value_scales(float scale) {
    for (Page& page : pages_) {
      for (std::size_t head = 0; head < layout_.heads(); ++head) {
        auto* scales = reinterpret_cast<float*>(page.bytes.data() + layout_.scales_at(RowKind::kValues, head));
        std::fill_n(scales, kPageTokens, scale);
      }
    }
  }

 private:
  struct Page {
    std::vector<std::byte> bytes;
    std::vector<std::uint16_t> fp16_rows;
  };

  /// Writes one token's rows of all heads.
  void write(std::size_t position, RowKind kind, std::span<const float> row, bool fp16) {
    Page& page = pages_[order_.page_of(position)];
    const std::size_t slot = position % kPageTokens;
    const std::size_t size = layout_.size(kind);
    for (std::size_t head = 0; head < layout_.heads(); ++head) {
      const std::vector<float> values(row.begin() + static_cast<std::ptrdiff_t>(head * size),
                                      row.begin() + static_cast<std::ptrdiff_t>((head + 1) * size));
      if (layout_.type() == CacheType::kInt8) {
        write_codes(values, kind, head, slot, page);
      } else {
        const EncodedFloats encoded(values, float_type(layout_.type()));
        std::memcpy(page.bytes.data() + layout_.rows_at(kind, head) + slot * layout_.row_bytes(kind), encoded.data(),
                    layout_.row_bytes(kind));
      }
    }
    if (layout_.type() != CacheType::kInt8) return;
    const std::size_t number = (5 * slot + 3) % kPageTokens;
    page.bytes[layout_.fp16_numbers_at() + slot] =
        static_cast<std::byte>(fp16 ? number : static_cast<std::size_t>(PageLayout::kNoFp16Row));
    if (!fp16) return;
    std::uint16_t* dst = page.fp16_rows.data() + number * layout_.fp16_row_size() + layout_.fp16_values_at(kind, 0);
    for (const float value : row) *dst++ = reference::float_to_half(value, FloatType::kF16);
  }

  void write_codes(const std::vector<float>& row, RowKind kind, std::size_t head, std::size_t slot, Page& page) const {
    if (!layout_.values_in_keys()) return write_part(row, kind, {.row = row.size()}, kind, head, slot, page);
    const auto values = static_cast<std::ptrdiff_t>(layout_.size(RowKind::kValues));
    write_part({row.begin(), row.begin() + values}, kind, {.row = layout_.key_codes()}, RowKind::kValues, head, slot,
               page);
    if (row.begin() + values == row.end()) return;
    write_part({row.begin() + values, row.end()}, kind, {.row = layout_.key_codes(), .first = layout_.others_at()},
               RowKind::kKeys, head, slot, page);
  }

  /// The position of a part's codes: from code `first` on, in rows of `row` codes.
  struct Place {
    std::size_t row;
    std::size_t first = 0;
  };

  void write_part(std::vector<float> part, RowKind kind, Place place, RowKind scale_of, std::size_t head,
                  std::size_t slot, Page& page) const {
    if (kind == RowKind::kKeys) part = reference::rotate_head(part.data(), part.size());
    const reference::IntegerActivations codes =
        reference::quantize(part.data(), 1, {.cols = part.size(), .group_size = part.size(), .outlier_columns = {}});
    std::byte* rows = page.bytes.data() + layout_.rows_at(kind, head);
    for (std::size_t c = 0; c < stored_size(CacheType::kInt8, kind, part.size()); ++c) {
      const int code = c < part.size() ? codes.codes[c] : 0;
      rows[code_index(kind, place.row, slot, place.first + c)] =
          static_cast<std::byte>(kind == RowKind::kKeys ? code + 128 : code);
    }
    std::memcpy(page.bytes.data() + layout_.scales_at(scale_of, head) + slot * sizeof(float), &codes.scales[0],
                sizeof(float));
  }

  PageLayout layout_;
  PageOrder order_;
  std::vector<Page> pages_;
  std::vector<CachePage> view_;
};

/// Queries, a cache, and memory for results.
struct AttentionData {
  AttentionCase c;
  AttentionShape shape;
  std::size_t q_stride;
  std::vector<float> q, sink_q, bias, sink_logits, distance_bias, slopes, score_bias;
  KeyRotation rotation;
  CacheCase cache;

  AttentionData(const AttentionCase& attention_case, unsigned seed)
      : c(attention_case),
        shape{.heads = c.heads,
              .kv_heads = c.kv_heads,
              .head_size = c.head_size,
              .scale = 0.7F / std::sqrt(static_cast<float>(c.head_size)),
              .value_size = c.value_size,
              .causal = c.causal,
              .score_cap = c.score_cap},
        q_stride(c.heads * c.head_size + 5),
        q(random_floats(c.queries * q_stride, seed, c.spread)),
        sink_q(random_floats(c.queries * c.heads * c.head_size, seed + 3, c.spread)),
        bias(random_floats(c.kv_heads * c.head_size, seed + 4, c.key_bias)),
        sink_logits(random_floats(c.heads, 5, 2.0F)),
        distance_bias(random_floats(c.heads * (2 * c.bias_reach + 1), 6, 2.0F)),
        slopes(random_floats(c.heads, 8, 0.1F)),
        score_bias(random_floats(c.score_bias ? c.heads * score_bias_stride() : 0, 7, 2.0F)),
        rotation(frequencies((c.head_size - 1) / 2), 1.25, (c.head_size - 1) % 2),
        cache(c, shape.output_size(), seed + 1) {
    if (c.sink_logits) shape.sink_logits = sink_logits.data();
    if (c.bias_reach != 0) shape.distance_bias = {.values = distance_bias.data(), .reach = c.bias_reach};
    if (c.slopes) shape.slopes = slopes.data();
  }

  std::size_t score_bias_stride() const { return c.queries * c.length + 3; }

  AttentionSequence sequence(AttentionResult& result) const {
    result.share.assign(c.heads, -1.0);
    AttentionSequence all = piece(0, c.queries, result.out);
    if (c.score_bias) {
      all.score_bias = score_bias.data();
      all.score_bias_stride = score_bias_stride();
    }
    all.first_token_share = result.share.data();
    return all;
  }

  /// Returns `count` queries from `first` on.
  AttentionSequence piece(std::size_t first, std::size_t count, std::vector<float>& out) const {
    out.assign(count * c.heads * shape.output_size(), 0.0F);
    AttentionSequence sequence = {.q = q.data() + first * q_stride,
                                  .q_stride = q_stride,
                                  .queries = count,
                                  .kv = cache.view(c.length - c.queries + first + count),
                                  .out = out.data(),
                                  .window = c.window,
                                  .sinks = c.sinks};
    if (c.key_bias != 0.0F) sequence.kv.key_bias = {bias.data(), &rotation};
    if (c.ring != 0 && c.sinks != 0) {
      sequence.sink_q = sink_q.data() + first * c.heads * c.head_size;
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

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace ballast::kernels

#endif  // BALLAST_TESTS_KERNELS_ATTENTION_CASE_H_
