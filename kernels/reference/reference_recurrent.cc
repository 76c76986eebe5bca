#include <vector>

#include "kernels/reference/reference.h"

namespace ballast::kernels::reference {

void causal_convolution(const ConvolutionRun& run) {
  const std::size_t before = run.width - 1;
  std::vector<float> history(run.history, run.history + before * run.channels);
  const auto input = [&](std::size_t row, std::size_t channel) {
    return row < before ? history[row * run.channels + channel] : run.src[(row - before) * run.src_stride + channel];
  };
  for (std::size_t c = 0; c < run.channels; ++c) {
    for (std::size_t t = 0; t < run.tokens; ++t) {
      double sum = run.bias == nullptr ? 0.0 : double{run.bias[c]};
      for (std::size_t tap = 0; tap < run.width; ++tap) {
        sum += double{run.weights[tap * run.channels + c]} * double{input(t + tap, c)};
      }
      run.dst[t * run.dst_stride + c] = static_cast<float>(sum);
    }
    for (std::size_t row = 0; row < before; ++row) run.history[row * run.channels + c] = input(run.tokens + row, c);
  }
}

/// Follows the definition of the rule, step by step.
void delta_rule(const DeltaRun& run) {
  std::vector<double> memory(run.memory, run.memory + run.key_size * run.value_size);
  for (std::size_t t = 0; t < run.tokens; ++t) {
    const float* query = run.queries + t * run.stride;
    const float* key = run.keys + t * run.stride;
    for (double& value : memory) value *= double{run.decays[t * run.gate_stride]};
    for (std::size_t c = 0; c < run.value_size; ++c) {
      double old = 0;
      for (std::size_t i = 0; i < run.key_size; ++i) old += memory[i * run.value_size + c] * double{key[i]};
      const double change = double{run.strengths[t * run.gate_stride]} * (double{run.values[t * run.stride + c]} - old);
      double out = 0;
      for (std::size_t i = 0; i < run.key_size; ++i) {
        double& value = memory[i * run.value_size + c];
        value += double{key[i]} * change;
        out += value * double{query[i]};
      }
      run.out[t * run.out_stride + c] = static_cast<float>(out);
    }
  }
  for (std::size_t i = 0; i < memory.size(); ++i) run.memory[i] = static_cast<float>(memory[i]);
}

void state_space(const StateSpaceRun& run) {
  std::vector<double> memory(run.memory, run.memory + run.state_size * run.head_size);
  for (std::size_t t = 0; t < run.tokens; ++t) {
    const float* key = run.keys + t * run.stride;
    const float* query = run.queries + t * run.stride;
    for (std::size_t c = 0; c < run.head_size; ++c) {
      const double value{run.values[t * run.stride + c]};
      double out = double{run.skip} * value;
      for (std::size_t i = 0; i < run.state_size; ++i) {
        double& cell = memory[i * run.head_size + c];
        cell = double{run.decays[t * run.gate_stride]} * cell +
               double{key[i]} * double{run.steps[t * run.gate_stride]} * value;
        out += cell * double{query[i]};
      }
      run.out[t * run.out_stride + c] = static_cast<float>(out);
    }
  }
  for (std::size_t i = 0; i < memory.size(); ++i) run.memory[i] = static_cast<float>(memory[i]);
}

}  // namespace ballast::kernels::reference
