#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

#include "kernels/attention/key_bias.h"
#include "kernels/reference/reference.h"

namespace ballast::kernels::reference {
namespace {

/// Returns whether a query at position p attends to position i.
bool sees(const AttentionShape& shape, const AttentionSequence& sequence, std::size_t p, std::size_t i) {
  if (shape.causal && i > p) return false;
  if (sequence.window == 0 || i < sequence.sinks) return true;
  return i + sequence.window > p && p + sequence.window > i;
}

/// Returns the F16 row that replaces a position's codes; PageLayout::kNoFp16Row for none.
std::int8_t fp16_number(const KeyValueView& kv, std::size_t position) {
  const CachePage& page = kv.page_of(position);
  if (kv.layout->type() != CacheType::kInt8 || page.fp16_rows == nullptr) return PageLayout::kNoFp16Row;
  return static_cast<std::int8_t>(page.data[kv.layout->fp16_numbers_at() + position % kPageTokens]);
}

/// Returns one value of a key that contains the values, from its codes.
double read_joined_code(const PageLayout& layout, const CachePage& page, std::size_t head, std::size_t slot,
                        std::size_t c) {
  const std::size_t values = layout.size(RowKind::kValues);
  const bool is_value = c < values;
  const std::size_t at = is_value ? c : layout.others_at() + c - values;
  const std::byte* rows = page.data + layout.rows_at(RowKind::kKeys, head);
  const int code = std::to_integer<int>(rows[code_index(RowKind::kKeys, layout.key_codes(), slot, at)]) - 128;
  const RowKind scale_of = is_value ? RowKind::kValues : RowKind::kKeys;
  return static_cast<double>(code) * read_value(page.data + layout.scales_at(scale_of, head), FloatType::kF32, slot);
}

/// Returns one value of the row of a position.
double read_row(const KeyValueView& kv, RowKind kind, std::size_t head, std::size_t position, std::size_t c) {
  const PageLayout& layout = *kv.layout;
  const CachePage& page = kv.page_of(position);
  const std::size_t slot = position % kPageTokens;
  const std::byte* rows = page.data + layout.rows_at(kind, head);
  if (layout.type() != CacheType::kInt8) {
    return read_value(rows + slot * layout.row_bytes(kind), float_type(layout.type()), c);
  }
  if (const std::int8_t number = fp16_number(kv, position); number != PageLayout::kNoFp16Row) {
    const std::size_t row = static_cast<std::size_t>(number) * layout.fp16_row_size();
    return read_value(page.fp16_rows, FloatType::kF16, row + layout.fp16_values_at(kind, head) + c);
  }
  if (layout.values_in_keys()) return read_joined_code(layout, page, head, slot, c);
  const int code = std::to_integer<int>(rows[code_index(kind, layout.size(kind), slot, c)]);
  const int value = kind == RowKind::kKeys ? code - 128 : static_cast<std::int8_t>(code);
  return static_cast<double>(value) * read_value(page.data + layout.scales_at(kind, head), FloatType::kF32, slot);
}

/// Returns the contribution of a key bias, rotated at a position, to the product of a query with its key.
double bias_score(const KeyBias& bias, const AttentionShape& shape, std::size_t kv_head, const float* q,
                  std::size_t position) {
  const KeyRotation& rotation = *bias.rotation;
  const std::size_t pairs = rotation.pairs();
  std::vector<double> key(bias.values + kv_head * shape.head_size, bias.values + (kv_head + 1) * shape.head_size);
  std::vector<double> angles(2 * pairs);
  rotation.at(static_cast<double>(position), angles.data());
  for (std::size_t j = 0; j < pairs; ++j) {
    double& x = key[rotation.offset() + j];
    double& y = key[rotation.offset() + pairs + j];
    const double a = x, b = y;
    const double cos = angles[j], sin = angles[pairs + j];
    x = (a * cos - b * sin) * rotation.amplitude();
    y = (b * cos + a * sin) * rotation.amplitude();
  }
  double sum = 0.0;
  for (std::size_t c = 0; c < shape.head_size; ++c) sum += q[c] * key[c];
  return sum;
}

/// Rotates values of a head's query and rounds them to codes, as INT8 keys require.
std::vector<float> rounded_part(const float* q, std::size_t size, float scale) {
  std::vector<float> scaled(size);
  const float factor = scale * std::numbers::log2e_v<float>;
  for (std::size_t c = 0; c < size; ++c) scaled[c] = q[c] * factor;
  scaled = rotate_head(scaled.data(), size);
  const IntegerActivations codes =
      quantize(scaled.data(), 1, {.cols = size, .group_size = size, .outlier_columns = {}});
  for (std::size_t c = 0; c < size; ++c) scaled[c] = static_cast<float>(codes.codes[c]) * codes.scales[0] / factor;
  return scaled;
}

/// Rounds one head's query: if keys contain values, these channels and the others separately.
std::vector<float> rounded_query(const float* q, const AttentionShape& shape, const PageLayout& layout) {
  if (!layout.values_in_keys()) return rounded_part(q, shape.head_size, shape.scale);
  const std::size_t values = layout.size(RowKind::kValues);
  std::vector<float> parts = rounded_part(q, values, shape.scale);
  if (values == shape.head_size) return parts;
  const std::vector<float> others = rounded_part(q + values, shape.head_size - values, shape.scale);
  parts.insert(parts.end(), others.begin(), others.end());
  return parts;
}

/// Returns the values of a position before the rotation for rounding.
std::vector<double> read_values(const KeyValueView& kv, std::size_t head, std::size_t position) {
  const PageLayout& layout = *kv.layout;
  std::vector<double> values;
  for (std::size_t c = 0; c < layout.size(RowKind::kValues); ++c) {
    values.push_back(read_row(kv, RowKind::kValues, head, position, c));
  }
  const bool codes = layout.type() == CacheType::kInt8 && fp16_number(kv, position) == PageLayout::kNoFp16Row;
  if (!codes || !layout.values_in_keys()) return values;
  const std::vector<float> rotated(values.begin(), values.end());
  const std::vector<float> back = rotate_head(rotated.data(), rotated.size());
  return {back.begin(), back.end()};
}

}  // namespace

std::vector<float> rotate_head(const float* src, std::size_t size) {
  std::size_t block = 1;
  while (size % (2 * block) == 0) block *= 2;
  std::vector<float> dst(src, src + size);
  const float scale = 1.0F / std::sqrt(static_cast<float>(block));
  for (float& value : dst) value *= scale;
  for (std::size_t step = 1; step < block; step *= 2) {
    for (std::size_t i = 0; i < size; ++i) {
      if (i / step % 2 != 0) continue;
      const float a = dst[i], b = dst[i + step];
      dst[i] = a + b;
      dst[i + step] = a - b;
    }
  }
  return dst;
}

void attention(const AttentionShape& shape, const AttentionSequence& sequence) {
  const std::size_t value_size = shape.output_size();
  const KeyValueView& kv = sequence.kv;
  for (std::size_t h = 0; h < shape.heads; ++h) {
    const std::size_t kv_head = h / shape.heads_of_key();
    if (sequence.first_token_share != nullptr) sequence.first_token_share[h] = 0.0;
    for (std::size_t i = 0; i < sequence.queries; ++i) {
      const std::size_t position = kv.length - sequence.queries + i;
      std::vector<double> weights(kv.length, -INFINITY);
      const std::vector<float> rounded =
          rounded_query(sequence.q + i * sequence.q_stride + h * shape.head_size, shape, *kv.layout);
      for (std::size_t j = 0; j < kv.length; ++j) {
        if (!sees(shape, sequence, position, j)) continue;
        const bool sink = sequence.window != 0 && j < sequence.sinks;
        const float* q = sink && sequence.sink_q != nullptr ? sequence.sink_q + i * sequence.sink_q_stride
                                                            : sequence.q + i * sequence.q_stride;
        const bool codes = kv.layout->type() == CacheType::kInt8 && fp16_number(kv, j) == PageLayout::kNoFp16Row;
        const float* query = codes ? rounded.data() : q + h * shape.head_size;
        weights[j] = 0.0;
        for (std::size_t c = 0; c < shape.head_size; ++c) {
          weights[j] += query[c] * read_row(kv, RowKind::kKeys, kv_head, j, c);
        }
        if (codes && kv.key_bias.values != nullptr) {
          weights[j] += bias_score(kv.key_bias, shape, kv_head, q + h * shape.head_size, j);
        }
        weights[j] *= shape.scale;
        if (const DistanceBias& bias = shape.distance_bias; bias.values != nullptr) {
          const auto reach = static_cast<std::ptrdiff_t>(bias.reach);
          const std::ptrdiff_t distance = static_cast<std::ptrdiff_t>(j) - static_cast<std::ptrdiff_t>(position);
          weights[j] +=
              bias.values[static_cast<std::ptrdiff_t>(h * bias.size()) + reach + std::clamp(distance, -reach, reach)];
        }
        if (shape.slopes != nullptr) {
          weights[j] -= double{shape.slopes[h]} * static_cast<double>(j > position ? j - position : position - j);
        }
        if (sequence.score_bias != nullptr) {
          weights[j] += sequence.score_bias[h * sequence.score_bias_stride + i * kv.length + j];
        }
        if (shape.score_cap > 0) weights[j] = shape.score_cap * std::tanh(weights[j] / shape.score_cap);
      }
      const double maximum = *std::max_element(weights.begin(), weights.end());
      double total = shape.sink_logits == nullptr ? 0.0 : std::exp(shape.sink_logits[h] - maximum);
      for (double& weight : weights) total += weight = std::exp(weight - maximum);
      std::vector<double> sums(value_size, 0.0);
      for (std::size_t j = 0; j < kv.length; ++j) {
        if (weights[j] == 0.0) continue;
        const std::vector<double> values = read_values(kv, kv_head, j);
        for (std::size_t c = 0; c < value_size; ++c) sums[c] += weights[j] * values[c];
      }
      for (std::size_t c = 0; c < value_size; ++c) {
        sequence.out[(i * shape.heads + h) * value_size + c] = static_cast<float>(sums[c] / total);
      }
      if (sequence.first_token_share != nullptr) sequence.first_token_share[h] += weights[0] / total;
    }
  }
}

}  // namespace ballast::kernels::reference
