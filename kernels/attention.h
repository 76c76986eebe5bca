// Causal softmax attention over cached keys and values, for several sequences at once.
#ifndef BALLAST_KERNELS_ATTENTION_H_
#define BALLAST_KERNELS_ATTENTION_H_

#include <cstddef>
#include <span>

#include "kernels/float_matrix.h"

namespace ballast::kernels {

struct AttentionShape {
  std::size_t heads = 0;
  std::size_t kv_heads = 0;  ///< divides heads; head h reads key head h / (heads / kv_heads)
  std::size_t head_size = 0;
  float scale = 1.0F;  ///< multiplies q.k
};

/// Keys and values of one sequence in one layer: [kv_heads][capacity][head_size], the first `length` positions valid.
struct KeyValueView {
  const void* keys = nullptr;
  const void* values = nullptr;
  FloatType type = FloatType::kF32;
  std::size_t capacity = 0;
  std::size_t length = 0;
};

/// One sequence's queries: the last `queries` of the cache's `length` positions. Query i sees positions
/// 0 .. length - queries + i.
struct AttentionSequence {
  const float* q = nullptr;  ///< [queries][heads * head_size], rows `q_stride` floats apart
  std::size_t q_stride = 0;
  std::size_t queries = 0;
  KeyValueView kv;
  float* out = nullptr;  ///< [queries][heads * head_size], dense
  /// Null, or [heads]: receives the sum over queries of the softmax weight on position 0.
  double* first_token_share = nullptr;
};

/// Online softmax over blocks of keys, sums in F32. Threads share out heads, sequences and blocks of queries; the
/// result does not depend on their number.
void attention(const AttentionShape& shape, std::span<const AttentionSequence> sequences);

/// Appends `count` tokens' keys and values (each [count][kv_heads * head_size], rows `stride` floats apart) to a cache
/// of the layout above at positions `first`..., rounded to `type`.
void append_key_values(const float* keys, const float* values, std::size_t stride, std::size_t count,
                       const AttentionShape& shape, FloatType type, std::size_t capacity, std::size_t first,
                       void* key_cache, void* value_cache);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_ATTENTION_H_
