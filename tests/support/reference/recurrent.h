// Reference implementations of mixers with a state of constant size, in plain loops in F64, as the papers define them.
#ifndef BALLAST_TESTS_SUPPORT_REFERENCE_RECURRENT_H_
#define BALLAST_TESTS_SUPPORT_REFERENCE_RECURRENT_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "ballast/spec.h"
#include "reference/roles.h"

namespace ballast::test {

/// The gated delta net.
class ReferenceDelta : public ReferenceRoles {
 public:
  using ReferenceRoles::ReferenceRoles;

  /// Returns the output of a layer's gated delta net.
  Rows run(std::size_t layer, const Rows& x) const {
    const auto& spec = std::get<GatedDeltaSpec>(spec_.layers[layer].mixer);
    const Rows queries = convolved(layer, linear(Role::kDeltaQuery, layer, x), 0);
    const std::size_t key_channels = spec.key_heads * spec.key_size;
    const Rows keys = convolved(layer, linear(Role::kDeltaKey, layer, x), key_channels);
    const Rows values = convolved(layer, linear(Role::kDeltaValue, layer, x), 2 * key_channels);
    const Rows gates = linear(Role::kDeltaGate, layer, x);
    const Rows strengths = linear(Role::kDeltaStrength, layer, x);
    const Rows decays = linear(Role::kDeltaDecay, layer, x);
    Rows outputs(x.size(), Row(spec.value_heads * spec.value_size));
    for (std::size_t head = 0; head < spec.value_heads; ++head) {
      const std::size_t key_head = head / (spec.value_heads / spec.key_heads);
      Rows memory(spec.key_size, Row(spec.value_size, 0.0));
      for (std::size_t t = 0; t < x.size(); ++t) {
        const Row query = unit(queries[t], key_head * spec.key_size, spec.key_size);
        const Row key = unit(keys[t], key_head * spec.key_size, spec.key_size);
        const double bias = double{at(Role::kDeltaDecayBias, layer).weight[head]};
        const double rate = std::exp(double{at(Role::kDeltaDecayRate, layer).weight[head]});
        const double decay = std::exp(-rate * std::log1p(std::exp(decays[t][head] + bias)));
        const double strength = 1 / (1 + std::exp(-strengths[t][head]));
        for (std::size_t c = 0; c < spec.value_size; ++c) {
          double old = 0;
          for (std::size_t i = 0; i < spec.key_size; ++i) old += key[i] * (memory[i][c] *= decay);
          const double change = strength * (values[t][head * spec.value_size + c] - old);
          double& out = outputs[t][head * spec.value_size + c];
          for (std::size_t i = 0; i < spec.key_size; ++i) {
            memory[i][c] += key[i] * change;
            out += memory[i][c] * query[i] / std::sqrt(static_cast<double>(spec.key_size));
          }
        }
      }
    }
    return linear(Role::kDeltaOutput, layer, gated(layer, spec, std::move(outputs), gates));
  }

 private:
  static double silu(double x) { return x / (1 + std::exp(-x)); }

  /// Returns rows whose channel 0 is channel `first` of the convolution.
  Rows convolved(std::size_t layer, const Rows& x, std::size_t first) const {
    const auto& spec = std::get<GatedDeltaSpec>(spec_.layers[layer].mixer);
    const std::vector<float>& taps = at(Role::kDeltaConvolution, layer).weight;
    Rows y(x.size(), Row(x[0].size(), 0.0));
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t c = 0; c < x[t].size(); ++c) {
        for (std::size_t back = 0; back < spec.width && back <= t; ++back) {
          y[t][c] += double{taps[(first + c) * spec.width + spec.width - 1 - back]} * x[t - back][c];
        }
        y[t][c] = silu(y[t][c]);
      }
    }
    return y;
  }

  static Row unit(const Row& row, std::size_t first, std::size_t size) {
    double squares = 1e-6;
    for (std::size_t i = first; i < first + size; ++i) squares += row[i] * row[i];
    Row result;
    for (std::size_t i = first; i < first + size; ++i) result.push_back(row[i] / std::sqrt(squares));
    return result;
  }

  Rows gated(std::size_t layer, const GatedDeltaSpec& spec, Rows outputs, const Rows& gates) const {
    for (std::size_t t = 0; t < outputs.size(); ++t) {
      for (std::size_t head = 0; head < spec.value_heads; ++head) {
        normalize({.epsilon = spec.epsilon}, at(Role::kDeltaNorm, layer), outputs[t].data() + head * spec.value_size);
      }
      for (std::size_t c = 0; c < outputs[t].size(); ++c) outputs[t][c] *= silu(gates[t][c]);
    }
    return outputs;
  }
};

/// The gated short convolution.
class ReferenceShortConvolution : public ReferenceRoles {
 public:
  using ReferenceRoles::ReferenceRoles;

  /// Returns the output of a layer's short convolution.
  Rows run(std::size_t layer, const Rows& x) const {
    const auto& spec = std::get<ShortConvolutionSpec>(spec_.layers[layer].mixer);
    const Rows before = linear(Role::kConvolutionInputGate, layer, x);
    const Rows after = linear(Role::kConvolutionOutputGate, layer, x);
    const Rows values = linear(Role::kConvolutionInput, layer, x);
    const std::vector<float>& taps = at(Role::kConvolutionTaps, layer).weight;
    Rows y(x.size(), Row(spec.channels, 0.0));
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t c = 0; c < spec.channels; ++c) {
        for (std::size_t back = 0; back < spec.width && back <= t; ++back) {
          y[t][c] += double{taps[c * spec.width + spec.width - 1 - back]} * before[t - back][c] * values[t - back][c];
        }
        if (spec.bias) y[t][c] += double{at(Role::kConvolutionBias, layer).weight[c]};
        y[t][c] *= after[t][c];
      }
    }
    return linear(Role::kConvolutionOutput, layer, y);
  }
};

/// Mamba 2, as the paper writes its recurrence.
class ReferenceMamba2 : public ReferenceRoles {
 public:
  using ReferenceRoles::ReferenceRoles;

  /// Returns the output of a layer's Mamba 2.
  Rows run(std::size_t layer, const Rows& x) const {
    const Mamba2Spec& spec = *spec_.layers[layer].mamba();
    const Rows values = convolved(layer, linear(Role::kMambaValue, layer, x), 0);
    const Rows keys = convolved(layer, linear(Role::kMambaKey, layer, x), spec.value_channels());
    const Rows queries =
        convolved(layer, linear(Role::kMambaQuery, layer, x), spec.value_channels() + spec.key_channels());
    const Rows steps = linear(Role::kMambaStep, layer, x);
    Rows outputs(x.size(), Row(spec.value_channels()));
    for (std::size_t head = 0; head < spec.heads; ++head) {
      const std::size_t group = head * spec.groups / spec.heads;
      const double rate = std::exp(double{at(Role::kMambaDecayRate, layer).weight[head]});
      Rows memory(spec.head_size, Row(spec.state_size, 0.0));
      for (std::size_t t = 0; t < x.size(); ++t) {
        const double bias{at(Role::kMambaStepBias, layer).weight[head]};
        const double step = std::clamp(std::log1p(std::exp(steps[t][head] + bias)), spec.least_step, spec.largest_step);
        for (std::size_t c = 0; c < spec.head_size; ++c) {
          const double value = values[t][head * spec.head_size + c];
          double& out = outputs[t][head * spec.head_size + c];
          out = double{at(Role::kMambaSkip, layer).weight[head]} * value;
          for (std::size_t i = 0; i < spec.state_size; ++i) {
            double& cell = memory[c][i];
            cell = std::exp(-rate * step) * cell + step * value * keys[t][group * spec.state_size + i];
            out += cell * queries[t][group * spec.state_size + i];
          }
        }
      }
    }
    return linear(Role::kMambaOutput, layer, gated(layer, std::move(outputs), linear(Role::kMambaGate, layer, x)));
  }

 private:
  static double silu(double x) { return x / (1 + std::exp(-x)); }

  /// Returns rows whose channel 0 is channel `first` of the convolution.
  Rows convolved(std::size_t layer, const Rows& x, std::size_t first) const {
    const Mamba2Spec& spec = *spec_.layers[layer].mamba();
    const std::vector<float>& taps = at(Role::kMambaConvolution, layer).weight;
    Rows y(x.size(), Row(x[0].size(), 0.0));
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t c = 0; c < x[t].size(); ++c) {
        if (spec.convolution_bias) y[t][c] = double{at(Role::kMambaConvolutionBias, layer).weight[first + c]};
        for (std::size_t back = 0; back < spec.width && back <= t; ++back) {
          y[t][c] += double{taps[(first + c) * spec.width + spec.width - 1 - back]} * x[t - back][c];
        }
        y[t][c] = silu(y[t][c]);
      }
    }
    return y;
  }

  Rows gated(std::size_t layer, Rows outputs, const Rows& gates) const {
    const Mamba2Spec& spec = *spec_.layers[layer].mamba();
    for (std::size_t t = 0; t < outputs.size(); ++t) {
      if (spec.norm == Mamba2Spec::Norm::kBeforeGate) normalize_groups(layer, outputs[t]);
      for (std::size_t c = 0; c < outputs[t].size(); ++c) outputs[t][c] *= silu(gates[t][c]);
      if (spec.norm == Mamba2Spec::Norm::kAfterGate) normalize_groups(layer, outputs[t]);
    }
    return outputs;
  }

  void normalize_groups(std::size_t layer, Row& row) const {
    const Mamba2Spec& spec = *spec_.layers[layer].mamba();
    const std::size_t size = row.size() / spec.groups;
    for (std::size_t group = 0; group < spec.groups; ++group) {
      double square = 0;
      for (std::size_t i = 0; i < size; ++i) square += std::pow(row[group * size + i], 2) / static_cast<double>(size);
      for (std::size_t i = group * size; i < (group + 1) * size; ++i) {
        row[i] *= double{at(Role::kMambaNorm, layer).weight[i]} / std::sqrt(square + spec.epsilon);
      }
    }
  }
};

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_REFERENCE_RECURRENT_H_
