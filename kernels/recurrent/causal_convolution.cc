#include "kernels/recurrent/causal_convolution.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrent/causal_convolution.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>
// After highway.h:
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// Computes dst = weights * src + sum; dst may be sum, and a null sum is zero.
void add_tap(const float* weights, const float* src, const float* sum, std::size_t count, float* dst) {
  for_vectors(count, [&](auto load, auto store) HWY_ATTR {
    const auto product = hn::Mul(load(weights), load(src));
    store(sum == nullptr ? product : hn::MulAdd(load(weights), load(src), load(sum)), dst);
  });
}

void convolve(const ConvolutionRun& run, std::size_t begin, std::size_t end) {
  const std::size_t before = run.width - 1;
  const auto input = [&](std::size_t row) {  // counted from the first row of the history
    return row < before ? run.history + row * run.channels : run.src + (row - before) * run.src_stride;
  };
  const float* bias = run.bias == nullptr ? nullptr : run.bias + begin;
  for (std::size_t t = 0; t < run.tokens; ++t) {
    float* dst = run.dst + t * run.dst_stride + begin;
    for (std::size_t tap = 0; tap < run.width; ++tap) {
      add_tap(run.weights + tap * run.channels + begin, input(t + tap) + begin, tap == 0 ? bias : dst, end - begin,
              dst);
    }
  }
  // Goes from the first row on, so that no row is overwritten before it is read.
  for (std::size_t row = 0; row < before; ++row) {
    std::copy(input(run.tokens + row) + begin, input(run.tokens + row) + end, run.history + row * run.channels + begin);
  }
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(convolve);

void causal_convolution(const ConvolutionRun& run, std::size_t begin, std::size_t end) {
  HWY_DYNAMIC_DISPATCH(convolve)(run, begin, end);
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
