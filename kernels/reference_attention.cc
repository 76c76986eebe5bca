#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference.h"

namespace ballast::kernels::reference {
namespace {

/// Does a query at position p see position i?
bool sees(const AttentionShape& shape, std::size_t p, std::size_t i) {
  if (!shape.causal) return true;
  if (i > p) return false;
  return shape.window == 0 || i + shape.window > p || i < shape.sinks;
}

/// One value of the row of a position.
double read_row(const CachedRows& rows, std::size_t heads, std::size_t head, std::size_t size, std::size_t position,
                std::size_t c) {
  const std::size_t slot = position % rows.capacity;
  const std::size_t row = head * rows.capacity + slot;
  if (rows.type != CacheType::kInt8) return read_value(rows.data, float_type(rows.type), row * size + c);
  if (rows.exact_rows != nullptr && rows.exact_rows[slot] >= 0) {
    return read_value(rows.exact, FloatType::kF16,
                      (static_cast<std::size_t>(rows.exact_rows[slot]) * heads + head) * size + c);
  }
  return static_cast<double>(static_cast<const std::int8_t*>(rows.data)[row * size + c]) * rows.scales[row];
}

}  // namespace

void attention(const AttentionShape& shape, const AttentionSequence& sequence) {
  const std::size_t value_size = shape.output_size();
  const KeyValueView& kv = sequence.kv;
  for (std::size_t h = 0; h < shape.heads; ++h) {
    const std::size_t kv_head = h / (shape.heads / shape.kv_heads);
    if (sequence.first_token_share != nullptr) sequence.first_token_share[h] = 0.0;
    for (std::size_t i = 0; i < sequence.queries; ++i) {
      const std::size_t position = kv.length - sequence.queries + i;
      std::vector<double> weights(kv.length, -INFINITY);
      for (std::size_t j = 0; j < kv.length; ++j) {
        if (!sees(shape, position, j)) continue;
        const bool sink = shape.window != 0 && j < shape.sinks;
        const float* q = sink && sequence.sink_q != nullptr ? sequence.sink_q + i * sequence.sink_q_stride
                                                            : sequence.q + i * sequence.q_stride;
        const CachedRows& keys = sink && kv.sink_keys.data != nullptr ? kv.sink_keys : kv.keys;
        weights[j] = 0.0;
        for (std::size_t c = 0; c < shape.head_size; ++c) {
          weights[j] += q[h * shape.head_size + c] * read_row(keys, shape.kv_heads, kv_head, shape.head_size, j, c);
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
