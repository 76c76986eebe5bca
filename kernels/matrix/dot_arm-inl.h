// Dot products of bytes on ARM. Highway 1.2 has a single instruction only for signed bytes on SVE. The others are newer
// than the instruction sets that it compiles for, so this file has them as inline assembly.
#if defined(BALLAST_KERNELS_MATRIX_DOT_ARM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_MATRIX_DOT_ARM_INL_H_
#undef BALLAST_KERNELS_MATRIX_DOT_ARM_INL_H_
#else
#define BALLAST_KERNELS_MATRIX_DOT_ARM_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Returns sum + weights . activations over the four bytes of each INT32 lane, exact for activations in [-127, 127].
/// gcc 12 compiles Highway 1.2's operation to 14 instructions on every NEON target, instead of 1 and 4 here; on SVE to
/// 1.
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

#if HWY_ARCH_ARM_A64

// Enables the instructions in the assembler. This lasts until the next function for another target, so it lists all
// extensions that functions for the current target may use.
#undef BALLAST_ARM_EXTENSIONS
#if HWY_TARGET_IS_NEON
#define BALLAST_ARM_EXTENSIONS ".arch armv8.6-a+crypto+fp16\n\t"
#else
#define BALLAST_ARM_EXTENSIONS ".arch armv8.6-a+crypto+fp16+sve2+sve2-aes+sve2-bitperm\n\t"
#endif

#if HWY_TARGET_IS_NEON

/// Returns sum + a . b over the four bytes of each lane.
template <class VI, class VS>
HWY_INLINE VI sdot(VI sum, VS a, VS b) {
  asm(BALLAST_ARM_EXTENSIONS "sdot %0.4s, %1.16b, %2.16b" : "+w"(sum.raw) : "w"(a.raw), "w"(b.raw));
  return sum;
}

#endif

/// Returns sum + a . b over the four bytes of each lane, which are unsigned in a (i8mm).
template <class VI, class VU, class VS>
HWY_INLINE VI usdot(VI sum, VU a, VS b) {
#if HWY_TARGET_IS_NEON
  asm(BALLAST_ARM_EXTENSIONS "usdot %0.4s, %1.16b, %2.16b" : "+w"(sum.raw) : "w"(a.raw), "w"(b.raw));
#else
  asm(BALLAST_ARM_EXTENSIONS "usdot %0.s, %1.b, %2.b" : "+w"(sum) : "w"(a), "w"(b));
#endif
  return sum;
}

/// Returns, in every 16 bytes, sum[2 i + j] + a's i-th 8 bytes . b's j-th 8 bytes (i8mm).
template <class VI, class VS>
HWY_INLINE VI smmla(VI sum, VS a, VS b) {
#if HWY_TARGET_IS_NEON
  asm(BALLAST_ARM_EXTENSIONS "smmla %0.4s, %1.16b, %2.16b" : "+w"(sum.raw) : "w"(a.raw), "w"(b.raw));
#else
  asm(BALLAST_ARM_EXTENSIONS "smmla %0.s, %1.b, %2.b" : "+w"(sum) : "w"(a), "w"(b));
#endif
  return sum;
}

/// Loads 8 bytes of each of two rows into every 16 bytes.
template <class DI>
HWY_INLINE hn::VFromD<hn::Repartition<std::int8_t, DI>> two_rows(DI di32, const std::int8_t* first,
                                                                 const std::int8_t* second) {
#if HWY_TARGET_IS_NEON
  (void)di32;
  return hn::VFromD<hn::Repartition<std::int8_t, DI>>(vcombine_s8(vld1_s8(first), vld1_s8(second)));
#else
  const hn::Repartition<std::int64_t, DI> di64;
  std::int64_t bytes[2];
  std::memcpy(&bytes[0], first, 8);
  std::memcpy(&bytes[1], second, 8);
  return hn::BitCast(hn::Repartition<std::int8_t, DI>(),
                     hn::InterleaveEven(di64, hn::Set(di64, bytes[0]), hn::Set(di64, bytes[1])));
#endif
}

#endif  // HWY_ARCH_ARM_A64

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_MATRIX_DOT_ARM_INL_H_
