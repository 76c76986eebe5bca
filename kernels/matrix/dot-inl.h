// Integer dot products, with the best instructions of each processor: in each lane, 4 bytes of weights with 4 bytes of
// activations.
#if defined(BALLAST_KERNELS_MATRIX_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_MATRIX_DOT_INL_H_
#undef BALLAST_KERNELS_MATRIX_DOT_INL_H_
#else
#define BALLAST_KERNELS_MATRIX_DOT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/matrix/dot_arm-inl.h"
#include "kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DotIntTag = hn::ScalableTag<std::int32_t>;
using DotByteTag = hn::Repartition<std::uint8_t, DotIntTag>;
using DotSignedByteTag = hn::Repartition<std::int8_t, DotIntTag>;
using DotInt = hn::VFromD<DotIntTag>;
using DotBytes = hn::VFromD<DotByteTag>;
using DotSignedBytes = hn::VFromD<DotSignedByteTag>;

/// Copies four consecutive bytes to every INT32 lane.
template <class T, class DI>
HWY_INLINE hn::VFromD<hn::Repartition<T, DI>> broadcast_quad(DI di32, const T* src) {
  std::int32_t quad;
  std::memcpy(&quad, src, sizeof(quad));
  return hn::BitCast(hn::Repartition<T, DI>(), hn::Set(di32, quad));
}

#undef BALLAST_VPDPBUSD
#if HWY_TARGET == HWY_AVX2 && !defined(BALLAST_VNNI_BY_EVEX)
#define BALLAST_VPDPBUSD "%{vex%} vpdpbusd"
#else
#define BALLAST_VPDPBUSD "vpdpbusd"
#endif

/// The classes below implement dot products with different instructions, and all return the same integers. Kernels take
/// one of them as a template argument. Members:
///   kUnsignedCodes 8-bit codes of weights are unsigned bytes, else signed ones kWidensSmallCodes prompts expand codes
///   of fewer bits to 8 bits, less their zero points kPairsRows multiplies rows of codes in pairs, with panels that
///   expand_panel has arranged for it: prompts Few the class that multiplies few tokens, with packed panels
///   BlockSum<kCodeBits> sums of one block of 32 columns, from begin() on, until end() adds them to those before
///   add<kCodeBits> sum + weights . activations in each lane; weights below 8 bits are unsigned, activations are
///                        in [-127, 127]
///   add_quads the same for unsigned and signed bytes of the full range
template <class Dots>
class EachDotByItself {
 public:
  static constexpr bool kPairsRows = false;
  using Few = Dots;

  template <int kCodeBits>
  using BlockSum = DotInt;

  template <int kCodeBits>
  static HWY_INLINE DotInt& begin(DotInt& sum) {
    return sum;
  }
  template <int kCodeBits>
  static HWY_INLINE void end(DotInt& /*block*/, DotInt& /*sum*/) {}
  /// Holds two quads of two vectors of rows of weights.
  template <int kCodeBits>
  static HWY_INLINE void add_pair(DotBytes w00, DotBytes w10, DotBytes w01, DotBytes w11, DotSignedBytes a0,
                                  DotSignedBytes a1, DotInt& b0, DotInt& b1) {
    b0 = Dots::template add<kCodeBits>(w00, a0, b0);
    b1 = Dots::template add<kCodeBits>(w01, a0, b1);
    b0 = Dots::template add<kCodeBits>(w10, a1, b0);
    b1 = Dots::template add<kCodeBits>(w11, a1, b1);
  }

 private:
  EachDotByItself() = default;
  friend Dots;
};

#if HWY_ARCH_X86

/// x86 with VNNI: multiplies unsigned by signed bytes in one instruction (vpdpbusd).
struct VnniDots : public EachDotByItself<VnniDots> {
  static constexpr bool kUnsignedCodes = true;
  static constexpr bool kWidensSmallCodes = true;

  template <class VI, class VU, class VS>
  static HWY_INLINE VI add_quads(VU a, VS b, VI sum) {
    // Highway has no operation for this instruction on AVX2 and AVX3 targets, because the instruction is newer.
    asm(BALLAST_VPDPBUSD " %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
    return sum;
  }
  template <int kCodeBits>
  static HWY_INLINE DotInt add(DotBytes weights, DotSignedBytes activations, DotInt sum) {
    return add_quads(weights, activations, sum);
  }
};

/// SSSE3 to AVX-512 without VNNI: adds two products of bytes in 16 bits, with saturation (vpmaddubsw). With weights
/// below 8 bits, several such sums fit in 16 bits before they are widened.
struct PairwiseDots {
  static constexpr bool kUnsignedCodes = false;
  static constexpr bool kWidensSmallCodes = false;
  static constexpr bool kPairsRows = false;
  using Few = PairwiseDots;

  using Short = hn::Repartition<std::int16_t, DotIntTag>;
  using Shorts = hn::VFromD<Short>;

  /// 4 bits: the sum of a whole block, at most 8 * 2 * 15 * 127 = 30,480.
  template <int kCodeBits>
  using BlockSum = std::conditional_t<kCodeBits == 4, Shorts, DotInt>;

  template <int kCodeBits>
  static HWY_INLINE decltype(auto) begin(DotInt& sum) {
    if constexpr (kCodeBits == 4) {
      return hn::Zero(Short());
    } else {
      return (sum);
    }
  }
  template <int kCodeBits>
  static HWY_INLINE void end(BlockSum<kCodeBits>& block, DotInt& sum) {
    if constexpr (kCodeBits == 4) sum = widen(block, sum);
  }

  template <int kCodeBits>
  static HWY_INLINE void add_pair(DotBytes w00, DotBytes w10, DotBytes w01, DotBytes w11, DotSignedBytes a0,
                                  DotSignedBytes a1, BlockSum<kCodeBits>& b0, BlockSum<kCodeBits>& b1) {
    b0 = add_both<kCodeBits>(w00, w10, a0, a1, b0);
    b1 = add_both<kCodeBits>(w01, w11, a0, a1, b1);
  }

  template <int kCodeBits>
  static HWY_INLINE DotInt add(DotBytes weights, DotSignedBytes activations, DotInt sum) {
    if constexpr (kCodeBits < 8) return widen(pairs(weights, activations), sum);
    // |w| a sign(w): at most 2 * 128 * 127 = 32,512
    const auto signs = hn::BitCast(DotSignedByteTag(), weights);
    const auto magnitudes = hn::BitCast(DotByteTag(), hn::Abs(signs));  // -128 becomes 128
    return widen(pairs(magnitudes, hn::IfNegativeThenNegOrUndefIfZero(signs, activations)), sum);
  }

  template <class VI, class VU, class VS>
  static HWY_INLINE VI add_quads(VU a, VS b, VI sum) {
    return hn::SumOfMulQuadAccumulate(hn::DFromV<VI>(), a, b, sum);
  }

 private:
  template <int kCodeBits>
  static HWY_INLINE BlockSum<kCodeBits> add_both(DotBytes w0, DotBytes w1, DotSignedBytes a0, DotSignedBytes a1,
                                                 BlockSum<kCodeBits> block) {
    if constexpr (kCodeBits == 8) {
      return add<8>(w1, a1, add<8>(w0, a0, block));
    } else if constexpr (kCodeBits == 7) {  // at most 2 * 127 * 127 = 32,258 each
      return add<7>(w1, a1, add<7>(w0, a0, block));
    } else {  // at most 2 * 2 * 63 * 127 = 32,004
      const auto both = hn::Add(pairs(w0, a0), pairs(w1, a1));
      if constexpr (kCodeBits == 4) return hn::Add(block, both);
      if constexpr (kCodeBits != 4) return widen(both, block);
    }
  }
  static HWY_INLINE Shorts pairs(DotBytes weights, DotSignedBytes activations) {
    return hn::SatWidenMulPairwiseAdd(Short(), weights, activations);
  }
  static HWY_INLINE DotInt widen(Shorts pairs, DotInt sum) {
    return hn::Add(sum, hn::WidenMulPairwiseAdd(DotIntTag(), pairs, hn::Set(Short(), std::int16_t{1})));
  }
};

#else

/// ARM: multiplies signed by signed bytes with Highway's operations.
struct SignedDots : public EachDotByItself<SignedDots> {
  static constexpr bool kUnsignedCodes = false;
  static constexpr bool kWidensSmallCodes = true;

  template <int kCodeBits>
  static HWY_INLINE DotInt add(DotBytes weights, DotSignedBytes activations, DotInt sum) {
    return dot_signed_bytes(DotIntTag(), hn::BitCast(DotSignedByteTag(), weights), activations, sum);
  }
  template <class VI, class VU, class VS>
  static HWY_INLINE VI add_quads(VU a, VS b, VI sum) {
    return hn::SumOfMulQuadAccumulate(hn::DFromV<VI>(), a, b, sum);
  }
};

#if HWY_TARGET_IS_NEON && HWY_ARCH_ARM_A64

/// ARM with sdot, beyond NEON: Neoverse N1, Cortex-A76, Apple's processors.
struct SdotDots : public EachDotByItself<SdotDots> {
  static constexpr bool kUnsignedCodes = false;
  static constexpr bool kWidensSmallCodes = true;

  template <int kCodeBits>
  static HWY_INLINE DotInt add(DotBytes weights, DotSignedBytes activations, DotInt sum) {
    return sdot(sum, hn::BitCast(DotSignedByteTag(), weights), activations);
  }
  template <class VI, class VU, class VS>
  static HWY_INLINE VI add_quads(VU a, VS b, VI sum) {
    const hn::DFromV<VS> di8;  // a . b = (a - 128) . b + 64 . b + 64 . b
    const auto half = hn::Set(di8, std::int8_t{64});
    const auto low = hn::BitCast(di8, hn::Xor(a, hn::Set(hn::DFromV<VU>(), std::uint8_t{128})));
    return sdot(sdot(sdot(sum, low, b), half, b), half, b);
  }
};

#endif

#if HWY_ARCH_ARM_A64

/// ARM with i8mm, beyond NEON and SVE: products of 2 rows with 2 rows (smmla) and of unsigned with signed bytes
/// (usdot).
struct SmmlaDots : public EachDotByItself<SmmlaDots> {
  static constexpr bool kUnsignedCodes = false;
  static constexpr bool kWidensSmallCodes = true;
  static constexpr bool kPairsRows = true;
#if HWY_TARGET_IS_NEON
  using Few = SdotDots;
#else
  using Few = SignedDots;
#endif

  /// Converts the sums of two rows of codes between one vector of rows of weights each and pairs of those rows in every
  /// 16 bytes, in either direction.
  static HWY_INLINE void exchange_rows(DotInt& first, DotInt& second) {
    const hn::Repartition<std::int64_t, DotIntTag> di64;
    const auto a = hn::BitCast(di64, first);
    const auto b = hn::BitCast(di64, second);
    first = hn::BitCast(DotIntTag(), hn::InterleaveEven(di64, a, b));
    second = hn::BitCast(DotIntTag(), hn::InterleaveOdd(di64, a, b));
  }

  /// Adds 8 columns of two rows of codes times two vectors of rows of weights to sums that were exchanged.
  static HWY_INLINE void add_rows(const std::int8_t* first, const std::int8_t* second, DotBytes w00, DotBytes w10,
                                  DotBytes w01, DotBytes w11, DotInt& x0, DotInt& x1, DotInt& y0, DotInt& y1) {
    const DotSignedByteTag di8;
    const auto rows = two_rows(DotIntTag(), first, second);
    x0 = smmla(x0, rows, hn::BitCast(di8, w00));
    x1 = smmla(x1, rows, hn::BitCast(di8, w01));
    y0 = smmla(y0, rows, hn::BitCast(di8, w10));
    y1 = smmla(y1, rows, hn::BitCast(di8, w11));
  }

  template <class VI, class VU, class VS>
  static HWY_INLINE VI add_quads(VU a, VS b, VI sum) {
    return usdot(sum, a, b);
  }
};

#endif  // HWY_ARCH_ARM_A64

#endif

/// Calls use(dots) with the fastest class for this processor.
template <class Use>
HWY_INLINE auto with_dots(const Use& use) {
#if HWY_ARCH_ARM_A64
  switch (target_extension()) {
    case Extension::kMatrixProducts:
      return use(SmmlaDots());
#if HWY_TARGET_IS_NEON
    case Extension::kDotProduct:
      return use(SdotDots());
#endif
    default:
      return use(SignedDots());
  }
#elif !HWY_ARCH_X86
  return use(SignedDots());
#elif HWY_TARGET <= HWY_AVX2
  return target_extension() >= Extension::kVnni ? use(VnniDots()) : use(PairwiseDots());
#else
  return use(PairwiseDots());
#endif
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_MATRIX_DOT_INL_H_
