// exp for kernels other than matrix products. Per target: see Highway's foreach_target.h.
#if defined(BALLAST_KERNELS_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_EXP_INL_H_
#undef BALLAST_KERNELS_EXP_INL_H_
#else
#define BALLAST_KERNELS_EXP_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// Computes exp(x) to 1.5 units in the last place for -87 <= x <= 88; x is clamped to this range. It needs half the
/// instructions of Highway's, which also handles denormals.
template <class DF, class V = hwy::HWY_NAMESPACE::VFromD<DF>>
HWY_INLINE V exp_of(DF df, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<DF> di;
  x = hn::Max(hn::Min(x, hn::Set(df, 88.0F)), hn::Set(df, -87.0F));
  // x = n ln 2 + r. After adding 1.5 * 2^23, n is in the lowest bits.
  const V magic = hn::Set(df, 12582912.0F);
  const V shifted = hn::MulAdd(x, hn::Set(df, 1.44269504F), magic);
  const V n = hn::Sub(shifted, magic);
  V r = hn::NegMulAdd(n, hn::Set(df, 0.693359375F), x);
  r = hn::NegMulAdd(n, hn::Set(df, -2.12194440e-4F), r);
  // exp(r) = 1 + r + r^2 q(r): minimax for |r| <= ln(2) / 2, relative error 3e-9.
  V q = hn::MulAdd(hn::Set(df, 1.381454012e-3F), r, hn::Set(df, 8.368745149e-3F));
  q = hn::MulAdd(q, r, hn::Set(df, 4.166839079e-2F));
  q = hn::MulAdd(q, r, hn::Set(df, 1.666652040e-1F));
  q = hn::MulAdd(q, r, hn::Set(df, 4.999999343e-1F));
  const V power = hn::Add(hn::MulAdd(hn::Mul(r, r), q, r), hn::Set(df, 1.0F));
  // Multiplies by 2^n through the exponent: the range contains only normal numbers.
  return hn::BitCast(df, hn::Add(hn::BitCast(di, power), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_EXP_INL_H_
