// Softmax attention over cached keys and values, for several sequences at once.
#ifndef BALLAST_KERNELS_ATTENTION_ATTENTION_H_
#define BALLAST_KERNELS_ATTENTION_ATTENTION_H_

#include <cstddef>
#include <span>

#include "kernels/attention/key_value_pages.h"

namespace ballast::kernels {

/// Biases of scores by the distance of key and query. Not for INT8 caches, nor for keys that contain values.
struct DistanceBias {
  /// Null, or [heads][2 * reach + 1]: for keys from `reach` positions before the query to `reach` after it. Keys beyond
  /// have the first and the last bias.
  const float* values = nullptr;
  std::size_t reach = 0;

  std::size_t size() const { return 2 * reach + 1; }  ///< of a head
};

/// The parameters shared by all sequences of a call.
struct AttentionShape {
  std::size_t heads = 0;
  std::size_t kv_heads = 0;    ///< divides heads; head h reads key head h / heads_of_key()
  std::size_t head_size = 0;   ///< of queries and keys
  float scale = 1.0F;          ///< factor on q.k
  std::size_t value_size = 0;  ///< of values and outputs; 0: head_size
  bool causal = true;          ///< false: queries also attend to positions after their own (an encoder)
  float score_cap = 0.0F;      ///< a scaled score x becomes cap tanh(x / cap); 0: no cap
  /// Null, or [heads]: an additional score of each head in the softmax, whose weight has no value.
  const float* sink_logits = nullptr;
  DistanceBias distance_bias{};  ///< added to scaled scores, before the cap
  /// Null, or [heads]: a scaled score loses its head's slope for each position between query and key (ALiBi,
  /// arXiv:2108.12409), before the cap. Not for INT8 caches, nor for keys that contain values.
  const float* slopes = nullptr;

  std::size_t output_size() const { return value_size == 0 ? head_size : value_size; }
  std::size_t heads_of_key() const { return heads / kv_heads; }
};

/// One sequence's queries: the last `queries` of the cache's `length` positions. A query at position p attends to all
/// positions up to its own; with a window W, to positions p - W < i <= p and to the first `sinks` positions (attention
/// sinks, arXiv:2309.17453). Without a causal mask it attends to all positions, with a window to p - W < i < p + W.
struct AttentionSequence {
  const float* q = nullptr;  ///< [queries][heads * head_size], rows `q_stride` floats apart
  std::size_t q_stride = 0;
  std::size_t queries = 0;
  KeyValueView kv{};       ///< of any type and length, independent of the other sequences
  float* out = nullptr;    ///< [queries][heads * output_size()], dense
  std::size_t window = 0;  ///< 0: none
  std::size_t sinks = 0;   ///< no effect without a window
  /// Null, or [heads][queries][kv.length]: added to the scaled scores, before the cap. The values of a head are
  /// `score_bias_stride` floats after those of the head before. Not for INT8 caches, nor for keys that contain values.
  const float* score_bias = nullptr;
  std::size_t score_bias_stride = 0;
  /// Null, or [heads]: receives the sum over queries of the softmax weight on position 0.
  double* first_token_share = nullptr;
  /// The queries for the sinks, with the layout of q; null: q. In a rolling cache the keys are rotated at their own
  /// positions, and RoPE depends only on differences. So q, rotated at p, is used for the window, and sink_q, rotated
  /// at p's slot min(p, sinks + window - 1), for the sinks.
  const float* sink_q = nullptr;
  std::size_t sink_q_stride = 0;
};

/// Computes online softmax over blocks of keys, with sums in F32. Threads divide heads, sequences, blocks of queries
/// and parts of the positions; pages that sequences without a window share are read once for all of them.
/// Batch-invariant: a query's output is the same bits for any other queries and sequences in the call, any pages that
/// hold its keys, and any number of threads.
void attention(const AttentionShape& shape, std::span<const AttentionSequence> sequences);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_ATTENTION_ATTENTION_H_
