// The common part of mixers with a short convolution over tokens.
#ifndef BALLAST_MODEL_MIXER_CONVOLUTION_H_
#define BALLAST_MODEL_MIXER_CONVOLUTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/block/block_pass.h"
#include "model/mixer/sequence_state.h"
#include "model/roles/role_row.h"

namespace ballast::model {

struct ConvolutionState : MixerState {
  ConvolutionState(std::size_t channels, std::size_t width) : history((width - 1) * channels) {}
  std::unique_ptr<MixerState> clone() const override { return std::make_unique<ConvolutionState>(*this); }
  std::size_t memory_bytes() const override { return history.size() * sizeof(float); }
  std::vector<std::span<float>> values() override { return {history}; }

  std::vector<float> history;  ///< the last inputs of the convolution, [width - 1][channels]
};

/// A depthwise convolution over the `width` last tokens of a sequence.
class Convolution {
 public:
  /// Takes taps `stored` [channels][width], of which the last is for the token itself, and `bias` [channels], which may
  /// be empty.
  Convolution(const std::vector<float>& stored, std::size_t channels, std::size_t width, std::vector<float> bias = {});

  /// Computes channels begin .. end of dst from src, both [pass.tokens][channels]; not in place. The layer's states are
  /// ConvolutionState, or begin with it.
  void run(const BlockPass& pass, const float* src, std::size_t begin, std::size_t end, float* dst) const;

 private:
  std::size_t channels_;
  std::size_t width_;
  std::vector<float> taps_;  ///< [width][channels]
  std::vector<float> bias_;
};

/// Returns the row of a linear without a bias that reads the block's input.
template <std::size_t (*rows)(const LayerSpec&)>
constexpr RoleRow input_linear(Role role) {
  RoleRow row;
  row.role = role;
  row.shape = [](const ModelSpec& spec, const LayerSpec& layer) { return MatrixShape{rows(layer), spec.hidden_size}; };
  row.reads = Role::kAttentionNorm;
  return row;
}

/// Returns the row of a linear that reads the block's input and has a bias if BiasSpec::mixer_input is set.
template <std::size_t (*rows)(const LayerSpec&)>
constexpr RoleRow biased_input_linear(Role role, const char* (*why_bias_stays)(const LayerSpec&)) {
  RoleRow row = input_linear<rows>(role);
  row.bias_flag = &BiasSpec::mixer_input;
  row.why_bias_stays = why_bias_stays;
  return row;
}

/// Returns the row of a role that is a vector.
template <std::size_t (*size)(const LayerSpec&)>
constexpr RoleRow vector_row(Role role) {
  RoleRow row;
  row.role = role;
  row.kind = RoleRow::Kind::kVector;
  row.shape = [](const ModelSpec&, const LayerSpec& layer) { return MatrixShape{1, size(layer)}; };
  return row;
}

/// Returns the row of the taps. ballast stores them as a vector, other checkpoints as [channels][1][width]. `shape`
/// returns channels and width.
template <MatrixShape (*shape)(const LayerSpec&)>
constexpr RoleRow taps_row(Role role) {
  RoleRow row;
  row.role = role;
  row.kind = RoleRow::Kind::kVector;
  row.shape = [](const ModelSpec&, const LayerSpec& layer) {
    const auto [channels, width] = shape(layer);
    return MatrixShape{1, channels * width};
  };
  row.stored_shape = [](const ModelSpec&, const LayerSpec& layer) {
    const auto [channels, width] = shape(layer);
    return Shape{static_cast<std::int64_t>(channels), 1, static_cast<std::int64_t>(width)};
  };
  return row;
}

}  // namespace ballast::model

#endif  // BALLAST_MODEL_MIXER_CONVOLUTION_H_
