// A short convolution over the tokens of a text, channel by channel.
#ifndef BALLAST_KERNELS_RECURRENT_CAUSAL_CONVOLUTION_H_
#define BALLAST_KERNELS_RECURRENT_CAUSAL_CONVOLUTION_H_

#include <cstddef>

namespace ballast::kernels {

/// Consecutive tokens. Weights and history have rows of `channels` values.
struct ConvolutionRun {
  std::size_t tokens = 0;
  std::size_t channels = 0;
  std::size_t width = 0;           ///< tokens that one output depends on, including its own
  const float* weights = nullptr;  ///< [width][channels]
  const float* bias = nullptr;     ///< [channels]; null: zeros
  const float* src = nullptr;      ///< [tokens][channels], rows `src_stride` apart
  std::size_t src_stride = 0;
  float* history = nullptr;  ///< [width - 1][channels]: the tokens before; updated to those before the next run
  float* dst = nullptr;      ///< [tokens][channels], rows `dst_stride` apart; not src
  std::size_t dst_stride = 0;
};

/// Computes dst[t][c] = bias[c] + sum_w weights[w][c] * src[t - width + 1 + w][c] for channels begin .. end, with the
/// same bits for any division of the tokens into runs. Runs on the calling thread.
void causal_convolution(const ConvolutionRun& run, std::size_t begin, std::size_t end);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_RECURRENT_CAUSAL_CONVOLUTION_H_
