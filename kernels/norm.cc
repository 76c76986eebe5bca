#include "kernels/norm.h"

#include <cmath>

#include "kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>
// After highway.h:
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

using Tag = hn::ScalableTag<float>;
using Vector = hn::VFromD<Tag>;

float sum_of(const float* src, std::size_t size) {
  auto sum = hn::Zero(Tag());
  for_vectors(size, [&](auto load, auto) HWY_ATTR { sum = hn::Add(sum, load(src)); });
  return hn::ReduceSum(Tag(), sum);
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
  for_vectors(size - i, [&](auto load, auto) HWY_ATTR {
    const auto v = load(src + i);
    sum0 = hn::MulAdd(v, v, sum0);
  });
  return hn::ReduceSum(df, hn::Add(sum0, sum1));
}

/// Computes dst = src * factor * gain + bias.
HWY_INLINE void write_normalized(const float* src, std::size_t size, float factor, const NormParameters& parameters,
                                 float* dst) {
  const auto scale = hn::Set(Tag(), factor);
  const float* gain = parameters.gain;
  const float* bias = parameters.bias;
  for_vectors(size, [&](auto load, auto store) HWY_ATTR {
    Vector v = hn::Mul(load(src), scale);
    if (gain != nullptr) v = hn::Mul(v, load(gain));
    if (bias != nullptr) v = hn::Add(v, load(bias));
    store(v, dst);
  });
}

void rms_norm_row(const float* src, std::size_t size, const NormParameters& parameters, float* dst) {
  const float mean_square = sum_of_squares(src, size) / static_cast<float>(size);
  write_normalized(src, size, 1.0F / std::sqrt(mean_square + parameters.epsilon), parameters, dst);
}

void layer_norm_row(const float* src, std::size_t size, const NormParameters& parameters, float* dst) {
  const float mean = sum_of(src, size) / static_cast<float>(size);
  const auto center = hn::Set(Tag(), mean);
  // Lanes beyond the end would count as -mean, so the deviations are written first, only for whole rows.
  for_vectors(size, [&](auto load, auto store) HWY_ATTR { store(hn::Sub(load(src), center), dst); });
  const float variance = sum_of_squares(dst, size) / static_cast<float>(size);
  write_normalized(dst, size, 1.0F / std::sqrt(variance + parameters.epsilon), parameters, dst);
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(rms_norm_row);
HWY_EXPORT(layer_norm_row);

namespace {

template <class Row>
void norm_rows(const Row& run, const float* src, std::size_t m, std::size_t size, const NormParameters& parameters,
               float* dst) {
  parallel_ranges(m, threads_for(m * size), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) run(src + i * size, size, parameters, dst + i * size);
  });
}

/// `gain_step` is the distance of two heads' gains in floats.
template <class Row>
void norm_heads(const Row& run, float* x, std::size_t m, std::size_t heads, std::size_t head_size, std::size_t stride,
                const NormParameters& parameters, std::size_t gain_step) {
  const float* gain = parameters.gain;
  parallel_ranges(m, threads_for(m * heads * head_size), [&](std::size_t begin, std::size_t end) {
    NormParameters own = parameters;
    for (std::size_t i = begin; i < end; ++i) {
      for (std::size_t h = 0; h < heads; ++h) {
        if (gain != nullptr) own.gain = gain + h * gain_step;
        float* head = x + i * stride + h * head_size;
        run(head, head_size, own, head);
      }
    }
  });
}

}  // namespace

void rms_norm(const float* src, std::size_t m, std::size_t size, const NormParameters& parameters, float* dst) {
  norm_rows(HWY_DYNAMIC_POINTER(rms_norm_row), src, m, size, parameters, dst);
}

void layer_norm(const float* src, std::size_t m, std::size_t size, const NormParameters& parameters, float* dst) {
  norm_rows(HWY_DYNAMIC_POINTER(layer_norm_row), src, m, size, parameters, dst);
}

void rms_norm_heads(float* x, std::size_t m, std::size_t heads, std::size_t head_size, std::size_t stride,
                    const float* gain, float epsilon) {
  norm_heads(HWY_DYNAMIC_POINTER(rms_norm_row), x, m, heads, head_size, stride,
             {.gain = gain, .bias = nullptr, .epsilon = epsilon}, 0);
}

void layer_norm_heads(float* x, std::size_t m, std::size_t heads, std::size_t head_size, std::size_t stride,
                      const float* gain, float epsilon) {
  norm_heads(HWY_DYNAMIC_POINTER(layer_norm_row), x, m, heads, head_size, stride,
             {.gain = gain, .bias = nullptr, .epsilon = epsilon}, head_size);
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
