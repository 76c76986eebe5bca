// The two halves of a block, between its norms.
#ifndef BALLAST_MODEL_FORWARD_PARTS_H_
#define BALLAST_MODEL_FORWARD_PARTS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "model/forward.h"

namespace ballast::model {

/// One block's pass.
struct BlockPass {
  const ModelSpec& spec;
  const BlockWeights& block;
  std::size_t layer;
  const RopeAngles& angles;
  std::span<const BatchSequence> batch;
  std::size_t cache_layer;
  BlockActivations& activations;
  const ForwardOptions& options;
  std::size_t tokens;

  /// Runs linears that read rows [count][cols], and records that if it is asked for. `row_tokens` as LinearInput's.
  void apply_linears(std::span<const LinearOutput> outputs, const float* rows, std::size_t count,
                     std::span<const std::size_t> row_tokens = {}) const;

  /// Notes who reads rows.
  void record(std::vector<const Linear*> linears, const float* rows, std::size_t count,
              std::vector<std::size_t> row_tokens = {}) const;
};

inline void grow(std::vector<float>& buffer, std::size_t size) {
  if (buffer.size() < size) buffer.resize(size);
}

/// dst [tokens][hidden] = output projection of the attention over input [tokens][hidden].
void forward_attention(const BlockPass& pass, const float* input, float* dst);

/// dst [tokens][hidden] = MLP of input [tokens][hidden], plain or by experts.
void forward_mlp(const BlockPass& pass, const float* input, float* dst);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_FORWARD_PARTS_H_
