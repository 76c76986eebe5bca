#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "kernels/attention/key_bias.h"
#include "kernels/reference/reference.h"

namespace ballast::kernels::reference {
namespace {

/// Does a query at position p see position i?
bool sees(const AttentionShape& shape, std::size_t p, std::size_t i) {
  if (!shape.causal) return true;
  if (i > p) return false;
  return shape.window == 0 || i + shape.window > p || i < shape.sinks;
}

/// The row of `rows.exact` that stands for a position's codes; -1 for none.
std::int32_t exact_row(const CachedRows& rows, std::size_t position) {
  if (rows.exact_rows == nullptr || rows.exact == nullptr) return -1;
  return rows.exact_rows[position % rows.capacity];
}

/// One value of the row of a position.
double read_row(const CachedRows& rows, std::size_t heads, std::size_t head, std::size_t size, std::size_t position,
                std::size_t c) {
  const std::size_t slot = position % rows.capacity;
  if (rows.type != CacheType::kInt8) {
    return read_value(rows.data, float_type(rows.type), (head * rows.capacity + slot) * size + c);
  }
  if (const std::int32_t exact = exact_row(rows, position); exact >= 0) {
    return read_value(rows.exact, FloatType::kF16, (static_cast<std::size_t>(exact) * heads + head) * size + c);
  }
  const std::size_t slots = stored_slots(rows.type, rows.capacity);
  const auto* codes =
      static_cast<const std::uint8_t*>(rows.data) + head * slots * stored_row_bytes(rows.type, rows.kind, size);
  const int code = codes[code_index(rows.kind, size, slot, c)];
  const int value = rows.kind == RowKind::kKeys ? code - 128 : static_cast<std::int8_t>(code);
  return static_cast<double>(value) * rows.scales[head * slots + slot];
}

/// What a key bias, rotated at a position, adds to the product of a query with its key.
double bias_score(const KeyBias& bias, const AttentionShape& shape, std::size_t kv_head, const float* q,
                  std::size_t position) {
  const KeyRotation& rotation = *bias.rotation;
  const std::size_t pairs = rotation.pairs();
  std::vector<double> key(bias.values + kv_head * shape.head_size, bias.values + (kv_head + 1) * shape.head_size);
  std::vector<double> cos(pairs), sin(pairs);
  rotation.at(static_cast<double>(position), cos.data(), sin.data());
  for (std::size_t j = 0; j < pairs; ++j) {
    double& x = key[rotation.offset() + j];
    double& y = key[rotation.offset() + pairs + j];
    const double a = x, b = y;
    x = (a * cos[j] - b * sin[j]) * rotation.amplitude();
    y = (b * cos[j] + a * sin[j]) * rotation.amplitude();
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
    const std::size_t kv_head = h / (shape.heads / shape.kv_heads);
    if (sequence.first_token_share != nullptr) sequence.first_token_share[h] = 0.0;
    for (std::size_t i = 0; i < sequence.queries; ++i) {
      const std::size_t position = kv.length - sequence.queries + i;
      std::vector<double> weights(kv.length, -INFINITY);
      const std::vector<float> rounded = rounded_query(sequence.q + i * sequence.q_stride + h * shape.head_size, shape);
      for (std::size_t j = 0; j < kv.length; ++j) {
        if (!sees(shape, position, j)) continue;
        const bool sink = shape.window != 0 && j < shape.sinks;
        const float* q = sink && sequence.sink_q != nullptr ? sequence.sink_q + i * sequence.sink_q_stride
                                                            : sequence.q + i * sequence.q_stride;
        const CachedRows& keys = sink && kv.sink_keys.data != nullptr ? kv.sink_keys : kv.keys;
        const bool codes = keys.type == CacheType::kInt8 && exact_row(keys, j) < 0;
        const float* query = codes ? rounded.data() : q + h * shape.head_size;
        weights[j] = 0.0;
        for (std::size_t c = 0; c < shape.head_size; ++c) {
          weights[j] += query[c] * read_row(keys, shape.kv_heads, kv_head, shape.head_size, j, c);
        }
        if (codes && kv.key_bias.values != nullptr) {
          weights[j] += bias_score(kv.key_bias, shape, kv_head, q + h * shape.head_size, j);
        }
        weights[j] *= shape.scale;
      }
      const double maximum = *std::max_element(weights.begin(), weights.end());
      double total = 0.0;
      for (double& weight : weights) total += weight = std::exp(weight - maximum);
      for (std::size_t c = 0; c < value_size; ++c) {
        double sum = 0.0;
        for (std::size_t j = 0; j < kv.length; ++j) {
          if (weights[j] == 0.0) continue;
          const bool own_store = shape.window != 0 && j < shape.sinks && kv.sink_values.data != nullptr;
          const CachedRows& values = own_store ? kv.sink_values : kv.values;
          sum += weights[j] * read_row(values, shape.kv_heads, kv_head, value_size, j, c);
        }
        sequence.out[(i * shape.heads + h) * value_size + c] = static_cast<float>(sum / total);
      }
      if (sequence.first_token_share != nullptr) sequence.first_token_share[h] += weights[0] / total;
    }
  }
}

}  // namespace ballast::kernels::reference
