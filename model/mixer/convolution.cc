#include "model/mixer/convolution.h"

#include <utility>

#include "kernels/recurrent/causal_convolution.h"

namespace ballast::model {

Convolution::Convolution(const std::vector<float>& stored, std::size_t channels, std::size_t width,
                         std::vector<float> bias)
    : channels_(channels), width_(width), taps_(width * channels), bias_(std::move(bias)) {
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t tap = 0; tap < width; ++tap) taps_[tap * channels + c] = stored[c * width + tap];
  }
}

void Convolution::run(const BlockPass& pass, const float* src, std::size_t begin, std::size_t end, float* dst) const {
  std::size_t first = 0;
  for (const BatchSequence& sequence : pass.batch) {
    auto& state = static_cast<ConvolutionState&>(*sequence.state->mixer(pass.state_layer));
    kernels::causal_convolution({.tokens = sequence.tokens,
                                 .channels = channels_,
                                 .width = width_,
                                 .weights = taps_.data(),
                                 .bias = bias_.empty() ? nullptr : bias_.data(),
                                 .src = src + first * channels_,
                                 .src_stride = channels_,
                                 .history = state.history.data(),
                                 .dst = dst + first * channels_,
                                 .dst_stride = channels_},
                                begin, end);
    first += sequence.tokens;
  }
}

}  // namespace ballast::model
