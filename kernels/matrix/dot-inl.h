// The integer dot product that each target does best: 4 bytes of weights with 4 bytes of activations, into every lane.
#if defined(BALLAST_KERNELS_MATRIX_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_MATRIX_DOT_INL_H_
#undef BALLAST_KERNELS_MATRIX_DOT_INL_H_
#else
#define BALLAST_KERNELS_MATRIX_DOT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "kernels/matrix/dot_arm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DotIntTag = hn::ScalableTag<std::int32_t>;
using DotByteTag = hn::Repartition<std::uint8_t, DotIntTag>;
using DotSignedByteTag = hn::Repartition<std::int8_t, DotIntTag>;
using DotInt = hn::VFromD<DotIntTag>;
using DotBytes = hn::VFromD<DotByteTag>;
using DotSignedBytes = hn::VFromD<DotSignedByteTag>;

/// x86 with VNNI multiplies unsigned by signed bytes (vpdpbusd). The others take weights as signed bytes.
inline constexpr bool kUnsignedCodes = HWY_ARCH_X86 != 0 && HWY_TARGET <= HWY_AVX3_DL;

/// SSSE3 to AVX-512 without VNNI add two products of bytes in 16 bits, which saturate (vpmaddubsw).
inline constexpr bool kPairwiseProducts = HWY_ARCH_X86 != 0 && !kUnsignedCodes;

/// Four consecutive bytes in every INT32 lane.
template <class T, class DI>
HWY_INLINE hn::VFromD<hn::Repartition<T, DI>> broadcast_quad(DI di32, const T* src) {
  std::int32_t quad;
  std::memcpy(&quad, src, sizeof(quad));
  return hn::BitCast(hn::Repartition<T, DI>(), hn::Set(di32, quad));
}

HWY_INLINE DotInt add_pairs_of_16_bits(hn::VFromD<hn::Repartition<std::int16_t, DotIntTag>> pairs, DotInt sum) {
  const hn::Repartition<std::int16_t, DotIntTag> di16;
  return hn::Add(sum, hn::WidenMulPairwiseAdd(DotIntTag(), pairs, hn::Set(di16, std::int16_t{1})));
}

/// sum + weights . activations in each lane. Weights lie in 0 .. 63, activations in [-127, 127].
HWY_INLINE DotInt dot_small_weights(DotBytes weights, DotSignedBytes activations, DotInt sum) {
  if constexpr (kPairwiseProducts) {  // at most 2 * 63 * 127 = 16,002
    const hn::Repartition<std::int16_t, DotIntTag> di16;
    return add_pairs_of_16_bits(hn::SatWidenMulPairwiseAdd(di16, weights, activations), sum);
  } else if constexpr (kUnsignedCodes) {
    return hn::SumOfMulQuadAccumulate(DotIntTag(), weights, activations, sum);
  } else {
    return dot_signed_bytes(DotIntTag(), hn::BitCast(DotSignedByteTag(), weights), activations, sum);
  }
}

/// The same for weights of the full range: unsigned bytes where kUnsignedCodes says so, else signed ones.
HWY_INLINE DotInt dot_codes(DotBytes weights, DotSignedBytes activations, DotInt sum) {
  if constexpr (kPairwiseProducts) {  // |w| a sign(w): at most 2 * 128 * 127 = 32,512
    const hn::Repartition<std::int16_t, DotIntTag> di16;
    const auto signs = hn::BitCast(DotSignedByteTag(), weights);
    const auto magnitudes = hn::BitCast(DotByteTag(), hn::Abs(signs));  // -128 becomes 128
    const auto signed_activations = hn::IfNegativeThenNegOrUndefIfZero(signs, activations);
    return add_pairs_of_16_bits(hn::SatWidenMulPairwiseAdd(di16, magnitudes, signed_activations), sum);
  } else {
    return dot_small_weights(weights, activations, sum);
  }
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_MATRIX_DOT_INL_H_
