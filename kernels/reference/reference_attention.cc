#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

#include "kernels/attention/key_bias.h"
#include "kernels/reference/reference.h"

namespace ballast::kernels::reference {
namespace {

/// Does a query at position p see position i?
bool sees(const AttentionShape& shape, const AttentionSequence& sequence, std::size_t p, std::size_t i) {
  if (!shape.causal) return true;
  if (i > p) return false;
  return sequence.window == 0 || i + sequence.window > p || i < sequence.sinks;
}

/// The F16 row that stands for a position's codes; PageLayout::kNoFp16Row for none.
std::int8_t fp16_number(const KeyValueView& kv, std::size_t position) {
  const CachePage& page = kv.page_of(position);
  if (kv.layout->type() != CacheType::kInt8 || page.fp16_rows == nullptr) return PageLayout::kNoFp16Row;
  return static_cast<std::int8_t>(page.data[kv.layout->fp16_numbers_at() + position % kPageTokens]);
}

/// One value of the row of a position.
double read_row(const KeyValueView& kv, RowKind kind, std::size_t head, std::size_t position, std::size_t c) {
  const PageLayout& layout = *kv.layout;
  const CachePage& page = kv.page_of(position);
  const std::size_t slot = position % kPageTokens;
  const std::byte* rows = page.data + layout.rows_at(kind, head);
  if (layout.type() != CacheType::kInt8) {
    return read_value(rows, float_type(layout.type()), slot * layout.size(kind) + c);
  }
  if (const std::int8_t number = fp16_number(kv, position); number != PageLayout::kNoFp16Row) {
    const std::size_t row = static_cast<std::size_t>(number) * layout.fp16_row_size();
    return read_value(page.fp16_rows, FloatType::kF16, row + layout.fp16_values_at(kind, head) + c);
  }
  const int code = std::to_integer<int>(rows[code_index(kind, layout.size(kind), slot, c)]);
  const int value = kind == RowKind::kKeys ? code - 128 : static_cast<std::int8_t>(code);
  return static_cast<double>(value) * read_value(page.data + layout.scales_at(kind, head), FloatType::kF32, slot);
}

/// What a key bias, rotated at a position, adds to the product of a query with its key.
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

/// One head's query as INT8 keys meet it: rotated, and rounded to codes.
std::vector<float> rounded_query(const float* q, const AttentionShape& shape) {
  std::vector<float> scaled(shape.head_size);
  const float factor = shape.scale * std::numbers::log2e_v<float>;
  for (std::size_t c = 0; c < shape.head_size; ++c) scaled[c] = q[c] * factor;
  scaled = rotate_head(scaled.data(), shape.head_size);
  const IntegerActivations codes =
      quantize(scaled.data(), 1, {.cols = shape.head_size, .group_size = shape.head_size, .outlier_columns = {}});
  for (std::size_t c = 0; c < shape.head_size; ++c) {
    scaled[c] = static_cast<float>(codes.codes[c]) * codes.scales[0] / factor;
  }
  return scaled;
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
      const std::vector<float> rounded = rounded_query(sequence.q + i * sequence.q_stride + h * shape.head_size, shape);
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
        if (shape.score_cap > 0) weights[j] = shape.score_cap * std::tanh(weights[j] / shape.score_cap);
      }
      const double maximum = *std::max_element(weights.begin(), weights.end());
      double total = shape.sink_logits == nullptr ? 0.0 : std::exp(shape.sink_logits[h] - maximum);
      for (double& weight : weights) total += weight = std::exp(weight - maximum);
      for (std::size_t c = 0; c < value_size; ++c) {
        double sum = 0.0;
        for (std::size_t j = 0; j < kv.length; ++j) {
          if (weights[j] == 0.0) continue;
          sum += weights[j] * read_row(kv, RowKind::kValues, kv_head, j, c);
        }
        sequence.out[(i * shape.heads + h) * value_size + c] = static_cast<float>(sum / total);
      }
      if (sequence.first_token_share != nullptr) sequence.first_token_share[h] += weights[0] / total;
    }
  }
}

}  // namespace ballast::kernels::reference
