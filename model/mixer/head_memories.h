// What mixers have in common whose heads follow their sequences with a memory, after a short convolution and in front
// of a gate.
#ifndef BALLAST_MODEL_MIXER_HEAD_MEMORIES_H_
#define BALLAST_MODEL_MIXER_HEAD_MEMORIES_H_

#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "model/forward/forward_parts.h"
#include "model/mixer/convolution.h"

namespace ballast::model {

struct MemoryState final : ConvolutionState {
  MemoryState(std::size_t channels, std::size_t width, std::size_t memory_size)
      : ConvolutionState(channels, width), memory(memory_size) {}
  std::unique_ptr<MixerState> clone() const override { return std::make_unique<MemoryState>(*this); }
  std::size_t memory_bytes() const override { return ConvolutionState::memory_bytes() + memory.size() * sizeof(float); }

  std::vector<float> memory;  ///< of all heads, each as large as the others
};

/// One head's way along one sequence.
struct HeadRun {
  std::size_t tokens;
  std::size_t first_row;  ///< of the sequence, among the batch's
  std::size_t head;
  float* memory;  ///< the head's
};

/// Calls run for every head of every sequence, whose states are MemoryState, from several threads. `operations` of one
/// head for one token.
void follow_heads(const BlockPass& pass, std::size_t heads, std::size_t operations,
                  const std::function<void(const HeadRun&)>& run);

/// SiLU of what the convolution makes of src, both [pass.tokens][channels].
void convolve_activated(const BlockPass& pass, const Convolution& convolution, std::size_t channels, const float* src,
                        float* dst);

/// Leaves the rows of wanted tokens, if no others are: what heads returned and their gates [tokens][width], and
/// hidden. Returns how many.
std::size_t keep_wanted_outputs(const BlockPass& pass, std::size_t width, float* outputs, float* gates, float* hidden);

/// Rates that are stored as logarithms.
std::vector<float> decay_rates(const std::vector<float>& logarithms);

inline float softplus(float x) {
  return x > 20.0F ? x : std::log1p(std::exp(x));  // beyond that they are the same float
}

}  // namespace ballast::model

#endif  // BALLAST_MODEL_MIXER_HEAD_MEMORIES_H_
