// Rounding floats to symmetric codes of 8 bits, and of 16 in two planes.
#if defined(BALLAST_KERNELS_MATRIX_INTEGER_ROUNDING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_MATRIX_INTEGER_ROUNDING_INL_H_
#undef BALLAST_KERNELS_MATRIX_INTEGER_ROUNDING_INL_H_
#else
#define BALLAST_KERNELS_MATRIX_INTEGER_ROUNDING_INL_H_
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// Smaller magnitudes count as 0, because their reciprocals would overflow.
inline constexpr float kSmallestMagnitude = 1e-30F;

/// Returns the largest magnitude, or NaN if a value is NaN, which hn::Max need not return. Floats without their signs
/// have the same order as their bits.
inline float absolute_maximum(const float* HWY_RESTRICT src, std::size_t count) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di32;
  const std::size_t lanes = hn::Lanes(df);
  const auto magnitude = [&](auto values) HWY_ATTR { return hn::BitCast(di32, hn::Abs(values)); };
  auto max = hn::Zero(di32);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) max = hn::Max(max, magnitude(hn::LoadU(df, src + i)));
  if (i < count) max = hn::Max(max, magnitude(hn::LoadN(df, src + i, count - i)));
  return std::bit_cast<float>(hn::ReduceMax(di32, max));
}

/// Stores the codes of values whose largest magnitude is `maximum` (ties to even) and their sum; returns their scale.
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

/// Does the same with 16 bits: code = factor * high + low, both planes in [-127, 127]. `factor` is 255.
inline float quantize_group_to_16(const float* HWY_RESTRICT src, std::size_t count, float maximum, int factor,
                                  std::int8_t* HWY_RESTRICT high, std::int8_t* HWY_RESTRICT low, std::int32_t& high_sum,
                                  std::int32_t& low_sum) {
  const float top = static_cast<float>(127 * factor + 127);
  if (maximum < kSmallestMagnitude) maximum = 0.0F;
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di32;
  const hn::Rebind<std::int8_t, decltype(df)> di8;
  const std::size_t lanes = hn::Lanes(df);
  const auto scale = hn::Set(df, maximum == 0.0F ? 0.0F : top / maximum);
  const auto one_of_factor = hn::Set(df, 1.0F / static_cast<float>(factor));
  auto high_total = hn::Zero(di32), low_total = high_total;
  for (std::size_t i = 0; i < count; i += lanes) {
    const std::size_t left = HWY_MIN(lanes, count - i);
    const auto v = left == lanes ? hn::LoadU(df, src + i) : hn::LoadN(df, src + i, left);
    const auto code = hn::NearestInt(hn::Mul(v, scale));
    // code / 255 is at least 1/510 away from a tie, far more than the product's rounding.
    const auto h = hn::NearestInt(hn::Mul(hn::ConvertTo(df, code), one_of_factor));
    const auto l = hn::Sub(code, hn::Mul(h, hn::Set(di32, factor)));
    high_total = hn::Add(high_total, h);
    low_total = hn::Add(low_total, l);
    if (left == lanes) {
      hn::StoreU(hn::DemoteTo(di8, h), di8, high + i);
      hn::StoreU(hn::DemoteTo(di8, l), di8, low + i);
    } else {
      hn::StoreN(hn::DemoteTo(di8, h), di8, high + i, left);
      hn::StoreN(hn::DemoteTo(di8, l), di8, low + i, left);
    }
  }
  high_sum = hn::ReduceSum(di32, high_total);
  low_sum = hn::ReduceSum(di32, low_total);
  return maximum / top;
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_MATRIX_INTEGER_ROUNDING_INL_H_
