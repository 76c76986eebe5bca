// Powers of two for softmax weights.
#if defined(BALLAST_KERNELS_ATTENTION_EXP2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_ATTENTION_EXP2_INL_H_
#undef BALLAST_KERNELS_ATTENTION_EXP2_INL_H_
#else
#define BALLAST_KERNELS_ATTENTION_EXP2_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

enum class Exp2Accuracy {
  kFloat,   ///< relative error below 3e-7
  kWeight,  ///< below 3e-6, for weights that are rounded to 8 bits
};

/// Computes 2^x for x <= 0; below -125 the result is only of that magnitude. It is 2^n times a minimax polynomial of x
/// - n, which is in [-1/2, 1/2].
template <Exp2Accuracy kAccuracy, class DF>
HWY_INLINE hn::VFromD<DF> exp2_of(DF df, hn::VFromD<DF> x) {
  const hn::RebindToSigned<DF> di32;
  const auto rounder = hn::Set(df, 12582912.0F);  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  x = hn::Max(x, hn::Set(df, -125.0F));
  const auto shifted = hn::Add(x, rounder);
  const auto r = hn::Sub(x, hn::Sub(shifted, rounder));
  auto y = hn::Undefined(df);
  if constexpr (kAccuracy == Exp2Accuracy::kFloat) {
    y = hn::MulAdd(r, hn::Set(df, 1.53458121e-4F), hn::Set(df, 1.33999309e-3F));
    y = hn::MulAdd(r, y, hn::Set(df, 9.61848907e-3F));
    y = hn::MulAdd(r, y, hn::Set(df, 5.55032864e-2F));
    y = hn::MulAdd(r, y, hn::Set(df, 2.40226462e-1F));
    y = hn::MulAdd(r, y, hn::Set(df, 6.93147182e-1F));
    y = hn::MulAdd(r, y, hn::Set(df, 1.0F));
  } else {
    y = hn::MulAdd(r, hn::Set(df, 9.57010128e-3F), hn::Set(df, 5.59178591e-2F));
    y = hn::MulAdd(r, y, hn::Set(df, 2.40247443e-1F));
    y = hn::MulAdd(r, y, hn::Set(df, 6.93121791e-1F));
    y = hn::MulAdd(r, y, hn::Set(df, 9.99999285e-1F));
  }
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di32, shifted));
  return hn::BitCast(df, hn::Add(hn::BitCast(di32, y), exponent));
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_ATTENTION_EXP2_INL_H_
