// Softmax attention over cached keys and values, for several sequences at once.
#ifndef BALLAST_KERNELS_ATTENTION_ATTENTION_H_
#define BALLAST_KERNELS_ATTENTION_ATTENTION_H_

#include <cstddef>
#include <span>

#include "kernels/attention/key_value_pages.h"

namespace ballast::kernels {

/// What all sequences of a call have in common.
struct AttentionShape {
  std::size_t heads = 0;
  std::size_t kv_heads = 0;    ///< divides heads; head h reads key head h / heads_of_key()
  std::size_t head_size = 0;   ///< of queries and keys
  float scale = 1.0F;          ///< multiplies q.k
  std::size_t value_size = 0;  ///< of values and outputs; 0: head_size
  bool causal = true;          ///< false: queries see positions after their own, too (an encoder)
  float score_cap = 0.0F;      ///< a score x, scaled, becomes cap tanh(x / cap); 0: it stays
  /// Null, or [heads]: a score of each head's own beside those of the keys, whose weight no value gets.
  const float* sink_logits = nullptr;

  std::size_t output_size() const { return value_size == 0 ? head_size : value_size; }
  std::size_t heads_of_key() const { return heads / kv_heads; }
};

/// One sequence's queries: the last `queries` of the cache's `length` positions. A query at position p sees all
/// positions up to its own; with a window W, positions p - W < i <= p, and besides them the first `sinks` positions
/// (attention sinks, arXiv:2309.17453). Without a causal mask it sees all positions, with a window p - W < i < p + W.
struct AttentionSequence {
  const float* q = nullptr;  ///< [queries][heads * head_size], rows `q_stride` floats apart
  std::size_t q_stride = 0;
  std::size_t queries = 0;
  KeyValueView kv{};       ///< of any type and length, whatever the other sequences have
  float* out = nullptr;    ///< [queries][heads * output_size()], dense
  std::size_t window = 0;  ///< 0: none
  std::size_t sinks = 0;   ///< of no effect without a window
  /// Null, or [heads]: receives the sum over queries of the softmax weight on position 0.
  double* first_token_share = nullptr;
  /// The queries that meet the sinks, laid out as q; null: q. In a rolling cache the keys are rotated at their own
  /// positions, and RoPE sees differences only; so q, rotated at p, serves the window, and sink_q, rotated at p's slot
  /// min(p, sinks + window - 1), the sinks.
  const float* sink_q = nullptr;
  std::size_t sink_q_stride = 0;
};

/// Online softmax over blocks of keys, sums in F32. Threads share out heads, sequences, blocks of queries and parts of
/// the positions; what sequences without a window keep in the same pages is read once for them. Batch-invariant: a
/// query's output is the same bits whatever other queries and sequences are in the call, whatever pages hold its keys,
/// and for any number of threads.
void attention(const AttentionShape& shape, std::span<const AttentionSequence> sequences);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_ATTENTION_ATTENTION_H_
