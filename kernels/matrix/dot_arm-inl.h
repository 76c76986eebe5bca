// Dot products of signed bytes on ARM, where Highway 1.2 has one instruction for them on SVE only.
#if defined(BALLAST_KERNELS_MATRIX_DOT_ARM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_MATRIX_DOT_ARM_INL_H_
#undef BALLAST_KERNELS_MATRIX_DOT_ARM_INL_H_
#else
#define BALLAST_KERNELS_MATRIX_DOT_ARM_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// sum + weights . activations over the four bytes of each INT32 lane, exact for activations in [-127, 127].
/// Of Highway 1.2's own, gcc 12 makes 14 instructions on every NEON target, where these are 1 and 4; on SVE it makes 1.
template <class DI, class V8 = hn::VFromD<hn::Repartition<std::int8_t, DI>>>
HWY_INLINE hn::VFromD<DI> dot_signed_bytes(DI di32, V8 weights, V8 activations, hn::VFromD<DI> sum) {
#if HWY_TARGET == HWY_NEON_BF16
  (void)di32;
  return hn::VFromD<DI>(vdotq_s32(sum.raw, weights.raw, activations.raw));
#elif HWY_TARGET_IS_NEON && HWY_ARCH_ARM_A64
  (void)di32;
  // Two products fit 16 bits: at most 2 * 128 * 127 = 32,512.
  const int16x8_t low = vmull_s8(vget_low_s8(weights.raw), vget_low_s8(activations.raw));
  const int16x8_t high = vmull_high_s8(weights.raw, activations.raw);
  return hn::VFromD<DI>(vpadalq_s16(sum.raw, vpaddq_s16(low, high)));
#else
  return hn::SumOfMulQuadAccumulate(di32, weights, activations, sum);
#endif
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_MATRIX_DOT_ARM_INL_H_
