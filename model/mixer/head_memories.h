// Functions that gated delta nets and Mamba 2 share: a short convolution, a memory of each head that follows the tokens
// of a sequence, and a gate before the output projection.
#ifndef BALLAST_MODEL_MIXER_HEAD_MEMORIES_H_
#define BALLAST_MODEL_MIXER_HEAD_MEMORIES_H_

#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "model/block/block_pass.h"
#include "model/mixer/convolution.h"

namespace ballast::model {

struct MemoryState final : ConvolutionState {
  MemoryState(std::size_t channels, std::size_t width, std::size_t memory_size)
      : ConvolutionState(channels, width), memory(memory_size) {}
  std::unique_ptr<MixerState> clone() const override { return std::make_unique<MemoryState>(*this); }
  std::size_t memory_bytes() const override { return ConvolutionState::memory_bytes() + memory.size() * sizeof(float); }
  std::vector<std::span<float>> values() override { return {history, memory}; }

  std::vector<float> memory;  ///< of all heads, of equal size
};

/// One head's pass over the tokens of one sequence.
struct HeadRun {
  std::size_t tokens;
  std::size_t first_row;  ///< index of the sequence's first row in the batch
  std::size_t head;
  float* memory;  ///< the head's
};

/// Calls `run` for every head of every sequence, whose states are MemoryState, from several threads. `operations`: of
/// one head for one token.
void follow_heads(const BlockPass& pass, std::size_t heads, std::size_t operations,
                  const std::function<void(const HeadRun&)>& run);

/// Writes SiLU(convolution(src)) to dst, both [pass.tokens][channels].
void convolve_activated(const BlockPass& pass, const Convolution& convolution, std::size_t channels, const float* src,
                        float* dst);

/// The outputs of all heads before the gate, and the gates: [pass.tokens][width] each.
struct GatedRows {
  std::size_t width = 0;
  float* outputs = nullptr;
  float* gates = nullptr;
};

/// Completes Mixer::forward: adds the output projection of the gated rows to hidden, and returns the rows of hidden
/// that continue. `gated` makes a row from those of `rows`; when it is called, only the wanted rows are left.
std::size_t add_gated_outputs(const BlockPass& pass, const GatedRows& rows, const kernels::RowSource& gated,
                              const Linear& projection, float* hidden);

/// Returns rates that are stored as logarithms.
std::vector<float> decay_rates(const std::vector<float>& logarithms);

/// Implements RoleRow::read_by_linears_only for a norm before the gate.
inline FoldLegality read_after_gate(const ModelSpec& /*spec*/, const LayerSpec& /*layer*/) {
  return {true, "a gate multiplies it by element, then only a linear reads it"};
}

/// Returns the row of a linear that controls how a memory changes, with the flag that keeps it in F32.
constexpr RoleRow in_float32(RoleRow row) {
  row.needs_float32 = true;
  return row;
}

inline float softplus(float x) {
  return x > 20.0F ? x : std::log1p(std::exp(x));  // beyond that they are the same float
}

}  // namespace ballast::model

#endif  // BALLAST_MODEL_MIXER_HEAD_MEMORIES_H_
