#include "kernels/elementwise.h"

#include <cmath>

#include "kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>
// After highway.h:
#include <hwy/contrib/math/math-inl.h>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

using Tag = hn::ScalableTag<float>;
using Vector = hn::VFromD<Tag>;

/// Calls body(first, load, store) for every vector of 0 .. count; load and store keep to `count`.
template <class Body>
HWY_INLINE void for_vectors(std::size_t count, const Body& body) {
  const Tag df;
  const std::size_t lanes = hn::Lanes(df);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    body(
        i, [i](const float* src) HWY_ATTR { return hn::LoadU(Tag(), src + i); },
        [i](Vector v, float* dst) HWY_ATTR { hn::StoreU(v, Tag(), dst + i); });
  }
  const std::size_t left = count - i;
  if (left != 0) {
    body(
        i, [i, left](const float* src) HWY_ATTR { return hn::LoadN(Tag(), src + i, left); },
        [i, left](Vector v, float* dst) HWY_ATTR { hn::StoreN(v, Tag(), dst + i, left); });
  }
}

float sum_of_squares(const float* src, std::size_t size) {
  const Tag df;
  const std::size_t lanes = hn::Lanes(df);
  auto sum0 = hn::Zero(df), sum1 = sum0;
  std::size_t i = 0;
  for (; i + 2 * lanes <= size; i += 2 * lanes) {
    const auto v0 = hn::LoadU(df, src + i);
    const auto v1 = hn::LoadU(df, src + i + lanes);
    sum0 = hn::MulAdd(v0, v0, sum0);
    sum1 = hn::MulAdd(v1, v1, sum1);
  }
  for_vectors(size - i, [&](std::size_t, auto load, auto) HWY_ATTR {
    const auto v = load(src + i);
    sum0 = hn::MulAdd(v, v, sum0);
  });
  return hn::ReduceSum(df, hn::Add(sum0, sum1));
}

void rms_norm_rows(const float* src, std::size_t rows, std::size_t size, const float* gain, float epsilon, float* dst) {
  for (std::size_t r = 0; r < rows; ++r, src += size, dst += size) {
    const float mean = sum_of_squares(src, size) / static_cast<float>(size);
    const auto factor = hn::Set(Tag(), 1.0F / std::sqrt(mean + epsilon));
    for_vectors(size, [&](std::size_t, auto load, auto store)
                          HWY_ATTR { store(hn::Mul(hn::Mul(load(src), factor), load(gain)), dst); });
  }
}

void rope_row(float* x, std::size_t heads, std::size_t head_size, const float* cos, const float* sin) {
  const std::size_t half = head_size / 2;
  for (std::size_t h = 0; h < heads; ++h, x += head_size) {
    for_vectors(half, [&](std::size_t, auto load, auto store) HWY_ATTR {
      const auto a = load(x), b = load(x + half), c = load(cos), s = load(sin);
      store(hn::NegMulAdd(b, s, hn::Mul(a, c)), x);
      store(hn::MulAdd(a, s, hn::Mul(b, c)), x + half);
    });
  }
}

void silu_multiply_range(const float* gate, const float* up, std::size_t count, float* dst) {
  const Tag df;
  const auto one = hn::Set(df, 1.0F);
  const auto largest = hn::Set(df, 88.0F);  // beyond, exp leaves F32 and the result is 0 to F32's precision anyway
  for_vectors(count, [&](std::size_t, auto load, auto store) HWY_ATTR {
    const auto g = load(gate);
    const auto e = hn::Exp(df, hn::Min(hn::Neg(g), largest));
    store(hn::Mul(hn::Div(g, hn::Add(one, e)), load(up)), dst);
  });
}

void add_range(const float* src, std::size_t count, float* dst) {
  for_vectors(count, [&](std::size_t, auto load, auto store) HWY_ATTR { store(hn::Add(load(dst), load(src)), dst); });
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(rms_norm_rows);
HWY_EXPORT(rope_row);
HWY_EXPORT(silu_multiply_range);
HWY_EXPORT(add_range);

void rms_norm(const float* src, std::size_t m, std::size_t size, const float* gain, float epsilon, float* dst) {
  const auto run = HWY_DYNAMIC_POINTER(rms_norm_rows);
  parallel_ranges(m, threads_for(m * size), [&](std::size_t begin, std::size_t end) {
    run(src + begin * size, end - begin, size, gain, epsilon, dst + begin * size);
  });
}

void rope(float* x, std::size_t m, std::size_t heads, std::size_t head_size, std::size_t stride, const float* cos,
          const float* sin) {
  const auto run = HWY_DYNAMIC_POINTER(rope_row);
  const std::size_t half = head_size / 2;
  parallel_ranges(m, threads_for(m * heads * head_size), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) run(x + i * stride, heads, head_size, cos + i * half, sin + i * half);
  });
}

void silu_multiply(const float* gate, const float* up, std::size_t count, float* dst) {
  constexpr std::size_t kOperationsOfExp = 8;
  const auto run = HWY_DYNAMIC_POINTER(silu_multiply_range);
  parallel_ranges(count, threads_for(count * kOperationsOfExp),
                  [&](std::size_t begin, std::size_t end) { run(gate + begin, up + begin, end - begin, dst + begin); });
}

void add(const float* src, std::size_t count, float* dst) {
  const auto run = HWY_DYNAMIC_POINTER(add_range);
  parallel_ranges(count, threads_for(count),
                  [&](std::size_t begin, std::size_t end) { run(src + begin, end - begin, dst + begin); });
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
