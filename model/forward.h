// One block's forward pass over a batch of sequences, leaving what went through it where calibration can look.
#ifndef BALLAST_MODEL_FORWARD_H_
#define BALLAST_MODEL_FORWARD_H_

#include <cstddef>
#include <span>
#include <vector>

#include "ballast/spec.h"
#include "kernels/quantized_matrix.h"
#include "model/key_value_cache.h"
#include "model/weights.h"

namespace ballast::model {

/// Consecutive tokens of one sequence, at positions cache->length() ... The tokens of a batch lie one sequence after
/// the other.
struct BatchSequence {
  std::size_t tokens = 0;
  KeyValueCache* cache = nullptr;
};

/// Buffers that a block writes, reused from block to block; rows are the batch's tokens. After forward_block they hold
/// the block's activations: every linear's input, rotated queries and keys, values.
struct BlockActivations {
  std::vector<float> attention_input;     ///< [tokens][hidden], normalized
  std::vector<float> query_key_value;     ///< [tokens][row_size]: queries, then keys, then values; rotated
  std::vector<float> attention_output;    ///< [tokens][heads * head_size], before the output projection
  std::vector<float> mlp_input;           ///< [tokens][hidden], normalized
  std::vector<float> mlp_hidden;          ///< [tokens][mlp_size], what the down projection reads
  std::vector<double> first_token_share;  ///< [sequences][heads]; only when it was asked for

  std::size_t row_size = 0;  ///< of query_key_value

  // Not of interest outside.
  std::vector<float> up;
  std::vector<float> projected;
  std::vector<float> cos;
  std::vector<float> sin;
  kernels::Int8Activations quantized;
};

/// Angles of all positions that a model may see.
class RopeTable {
 public:
  explicit RopeTable(const ModelSpec& spec);

  /// cos and sin of a batch's tokens, [tokens][head_size / 2] each.
  void look_up(std::span<const BatchSequence> batch, std::vector<float>& cos, std::vector<float>& sin) const;

 private:
  std::vector<float> frequencies_;
};

struct ForwardOptions {
  bool first_token_share = false;  ///< also sum up the attention that each head gives to the first token
};

/// hidden [tokens][hidden_size] goes in and comes out; the batch's keys and values are appended to layer `cache_layer`
/// of each sequence's cache, without advancing it.
void forward_block(const ModelSpec& spec, const BlockWeights& block, const RopeTable& rope,
                   std::span<const BatchSequence> batch, std::size_t cache_layer, float* hidden,
                   BlockActivations& activations, const ForwardOptions& options = {});

}  // namespace ballast::model

#endif  // BALLAST_MODEL_FORWARD_H_
