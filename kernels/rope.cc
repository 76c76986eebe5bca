#include "kernels/rope.h"

#include "kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rope.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

void rope_row(float* x, std::size_t heads, std::size_t head_stride, std::size_t rotary_size, const float* cos,
              const float* sin) {
  const std::size_t half = rotary_size / 2;
  for (std::size_t h = 0; h < heads; ++h, x += head_stride) {
    for_vectors(half, [&](auto load, auto store) HWY_ATTR {
      const auto a = load(x), b = load(x + half), c = load(cos), s = load(sin);
      store(hn::NegMulAdd(b, s, hn::Mul(a, c)), x);
      store(hn::MulAdd(a, s, hn::Mul(b, c)), x + half);
    });
  }
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(rope_row);

void rope(float* x, std::size_t m, std::size_t heads, std::size_t head_stride, std::size_t rotary_size,
          std::size_t row_stride, const float* cos, const float* sin) {
  const auto run = HWY_DYNAMIC_POINTER(rope_row);
  const std::size_t half = rotary_size / 2;
  parallel_ranges(m, threads_for(m * heads * rotary_size), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      run(x + i * row_stride, heads, head_stride, rotary_size, cos + i * half, sin + i * half);
    }
  });
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
