// The rotation applied to INT8 keys and their queries before rounding: it does not change their products, and spreads
// the few large channels of keys over all channels (QuaRot, arXiv:2404.00456).
#if defined(BALLAST_KERNELS_ATTENTION_HEAD_ROTATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_ATTENTION_HEAD_ROTATION_INL_H_
#undef BALLAST_KERNELS_ATTENTION_HEAD_ROTATION_INL_H_
#else
#define BALLAST_KERNELS_ATTENTION_HEAD_ROTATION_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstddef>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// Replaces values `step` apart by their sums and differences.
HWY_INLINE void add_and_subtract(float* dst, std::size_t size, std::size_t step) {
  for (std::size_t first = 0; first < size; first += 2 * step) {
    for (std::size_t i = first; i < first + step; ++i) {
      const float a = dst[i], b = dst[i + step];
      dst[i] = a + b;
      dst[i + step] = a - b;
    }
  }
}

/// Computes dst = H src for blocks of the largest power of two that divides `size`, where H is a Hadamard matrix
/// divided by the root of its size. Gives the same bits on every target: sums of pairs in one order. Always uses four
/// lanes: each step loads the same pieces that the previous one stored, so that it need not wait for memory.
HWY_INLINE void rotate_head(const float* HWY_RESTRICT src, std::size_t size, float* HWY_RESTRICT dst) {
  const hn::CappedTag<float, 4> df;
  const std::size_t block = size & (~size + 1);
  const float scale = 1.0F / std::sqrt(static_cast<float>(block));
  if (block < 4 || hn::Lanes(df) < 4) {
    for (std::size_t i = 0; i < size; ++i) dst[i] = src[i] * scale;
    for (std::size_t step = 1; step < block; step *= 2) add_and_subtract(dst, size, step);
    return;
  }
  const auto index = hn::Iota(df, 0.0F);
  const auto odd = hn::Or(hn::Eq(index, hn::Set(df, 1.0F)), hn::Eq(index, hn::Set(df, 3.0F)));
  const auto upper = hn::Gt(index, hn::Set(df, 1.5F));
  for (std::size_t i = 0; i < size; i += 4) {  // steps 1 and 2
    auto v = hn::Mul(hn::LoadU(df, src + i), hn::Set(df, scale));
    auto swapped = hn::Reverse2(df, v);
    v = hn::IfThenElse(odd, hn::Sub(swapped, v), hn::Add(v, swapped));
    swapped = hn::Shuffle1032(v);
    v = hn::IfThenElse(upper, hn::Sub(swapped, v), hn::Add(v, swapped));
    hn::StoreU(v, df, dst + i);
  }
  for (std::size_t step = 4; step < block; step *= 2) {
    for (std::size_t first = 0; first < size; first += 2 * step) {
      for (float* low = dst + first; low < dst + first + step; low += 4) {
        const auto a = hn::LoadU(df, low), b = hn::LoadU(df, low + step);
        hn::StoreU(hn::Add(a, b), df, low);
        hn::StoreU(hn::Sub(a, b), df, low + step);
      }
    }
  }
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_ATTENTION_HEAD_ROTATION_INL_H_
