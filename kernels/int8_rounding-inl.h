// Rounding floats to symmetric INT8 codes.
#if defined(BALLAST_KERNELS_INT8_ROUNDING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_INT8_ROUNDING_INL_H_
#undef BALLAST_KERNELS_INT8_ROUNDING_INL_H_
#else
#define BALLAST_KERNELS_INT8_ROUNDING_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// Below this a magnitude counts as 0: its reciprocal would overflow.
inline constexpr float kSmallestMagnitude = 1e-30F;

inline float absolute_maximum(const float* HWY_RESTRICT src, std::size_t count) {
  const hn::ScalableTag<float> df;
  const std::size_t lanes = hn::Lanes(df);
  auto max = hn::Zero(df);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) max = hn::Max(max, hn::Abs(hn::LoadU(df, src + i)));
  if (i < count) max = hn::Max(max, hn::Abs(hn::LoadN(df, src + i, count - i)));
  return hn::ReduceMax(df, max);
}

/// Codes of values whose largest magnitude is `maximum`, ties to even, and their sum; returns their scale.
inline float quantize_group(const float* HWY_RESTRICT src, std::size_t count, float maximum,
                            std::int8_t* HWY_RESTRICT codes, std::int32_t& code_sum) {
  if (maximum < kSmallestMagnitude) maximum = 0.0F;
  const float inverse = maximum == 0.0F ? 0.0F : 127.0F / maximum;
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di32;
  const hn::Rebind<std::int8_t, decltype(df)> di8;
  const std::size_t lanes = hn::Lanes(df);
  const auto factor = hn::Set(df, inverse);
  auto sum = hn::Zero(di32);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto rounded = hn::NearestInt(hn::Mul(hn::LoadU(df, src + i), factor));
    sum = hn::Add(sum, rounded);
    hn::StoreU(hn::DemoteTo(di8, rounded), di8, codes + i);
  }
  if (i < count) {
    const auto rounded = hn::NearestInt(hn::Mul(hn::LoadN(df, src + i, count - i), factor));
    sum = hn::Add(sum, rounded);  // lanes beyond the end are 0
    hn::StoreN(hn::DemoteTo(di8, rounded), di8, codes + i, count - i);
  }
  code_sum = hn::ReduceSum(di32, sum);
  return maximum / 127.0F;
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_INT8_ROUNDING_INL_H_
