// The two halves of a block, between its norms.
#ifndef BALLAST_MODEL_FORWARD_FORWARD_PARTS_H_
#define BALLAST_MODEL_FORWARD_FORWARD_PARTS_H_

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "model/forward/forward.h"

namespace ballast::model {

/// The linears that read one input: three of an attention and its gate at most, kept without allocating.
class LinearOutputs {
 public:
  void add(const LinearOutput& output) { outputs_[count_++] = output; }
  std::span<const LinearOutput> all() const { return std::span(outputs_).first(count_); }

 private:
  std::array<LinearOutput, 4> outputs_{};
  std::size_t count_ = 0;
};

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

  /// Runs linears that read `count` rows, and records that if it is asked for. `row_tokens` as LinearInput's.
  void apply_linears(std::span<const LinearOutput> outputs, const LinearRows& rows, std::size_t count,
                     std::span<const std::size_t> row_tokens = {}) const;

  /// Notes who reads rows.
  void record(std::vector<const Linear*> linears, const float* rows, std::size_t count,
              std::vector<std::size_t> row_tokens = {}) const;
};

inline void grow(std::vector<float>& buffer, std::size_t size) {
  if (buffer.size() < size) buffer.resize(size);
}

/// hidden [tokens][hidden] += output projection of the attention over input [tokens][hidden], which may be made from
/// hidden but does not lie in it. Returns the rows of hidden that go on: all, or by wanted_only those of the wanted
/// tokens.
std::size_t forward_attention(const BlockPass& pass, const LinearRows& input, float* hidden);

/// hidden [tokens][hidden] += MLP of input [tokens][hidden], as above; plain or by experts.
void forward_mlp(const BlockPass& pass, const LinearRows& input, float* hidden);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_FORWARD_FORWARD_PARTS_H_
