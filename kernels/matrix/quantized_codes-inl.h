// Codes of a panel as the dot products want them: a vector of bytes for each quad and vector of rows.
#if defined(BALLAST_KERNELS_MATRIX_QUANTIZED_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_MATRIX_QUANTIZED_CODES_INL_H_
#undef BALLAST_KERNELS_MATRIX_QUANTIZED_CODES_INL_H_
#else
#define BALLAST_KERNELS_MATRIX_QUANTIZED_CODES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "kernels/matrix/dot-inl.h"
#include "kernels/matrix/quantized_storage.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// Bits shifted left (kShift > 0) or right, then masked. Shifts 16-bit lanes: there are none of bytes.
template <int kShift>
HWY_INLINE DotBytes shift_and_mask(DotBytes bytes, int mask) {
  const hn::Repartition<std::uint16_t, DotByteTag> du16;
  const auto wide = hn::BitCast(du16, bytes);
  const auto shifted =
      kShift >= 0 ? hn::ShiftLeft<(kShift >= 0 ? kShift : 0)>(wide) : hn::ShiftRight<(kShift >= 0 ? 0 : -kShift)>(wide);
  return hn::And(hn::BitCast(DotByteTag(), shifted), hn::Set(DotByteTag(), static_cast<std::uint8_t>(mask)));
}

/// What kBits bits of quad kQuad of a block, 1 or 2 in a byte with those of other quads, are from bit kFirst of its
/// codes on.
template <int kBits, int kFirst, int kQuad>
HWY_INLINE DotBytes high_bits(DotBytes high) {
  constexpr int kMask = ((1 << kBits) - 1) << kFirst;
  return shift_and_mask<kFirst - kBits*(kQuad % (8 / kBits))>(high, kMask);
}

// Non-linear codes are places in a table; what follows makes codes of kNonlinearCodeBits of them.

/// Of 4 bits.
HWY_INLINE DotBytes look_up_16(DotBytes places) {
  return hn::TableLookupBytes(hn::LoadDup128(DotByteTag(), kNonlinearCodes4.data()), places);
}

/// Of 5 bits: the low four, and the fifth as the highest bit of a byte whose other bits are anything.
HWY_INLINE DotBytes look_up_32(DotBytes low_bits, DotBytes fifth) {
  const DotByteTag du8;
  const DotSignedByteTag di8;
  const auto low = hn::TableLookupBytes(hn::LoadDup128(du8, kNonlinearCodes5.data()), low_bits);
  const auto high = hn::TableLookupBytes(hn::LoadDup128(du8, kNonlinearCodes5.data() + 16), low_bits);
  return hn::BitCast(du8,
                     hn::IfNegativeThenElse(hn::BitCast(di8, fifth), hn::BitCast(di8, high), hn::BitCast(di8, low)));
}

/// Of 6 bits: one more step for each beyond either bend.
HWY_INLINE DotBytes count_steps(DotBytes places) {
  constexpr int kMiddle = 32;
  const DotByteTag du8;
  const auto of = [&](int value) HWY_ATTR { return hn::Set(du8, static_cast<std::uint8_t>(value)); };
  const auto above = hn::SaturatedSub(places, of(kMiddle + kNonlinear6Bend));
  const auto below = hn::SaturatedSub(of(kMiddle - kNonlinear6Bend), places);
  return hn::Add(hn::Sub(hn::Add(places, of(kNonlinearZero - kMiddle)), below), above);
}

/// Bit kQuad of every byte as its highest; the others are anything.
template <int kQuad>
HWY_INLINE DotBytes as_highest_bit(DotBytes bytes) {
  const hn::Repartition<std::uint16_t, DotByteTag> du16;
  return hn::BitCast(DotByteTag(), hn::ShiftLeft<7 - kQuad>(hn::BitCast(du16, bytes)));
}

/// Quads 2 kPair and 2 kPair + 1 of a block, of one vector of rows, as codes of kCodeBits, which are not kBits where
/// they are non-linear. `codes` points to that vector's first bytes.
template <int kBits, int kCodeBits, int kPair>
HWY_INLINE void load_pair(const std::uint8_t* HWY_RESTRICT codes, DotBytes& first, DotBytes& second) {
  constexpr bool kNonlinear = kCodeBits > kBits;
  const DotByteTag du8;
  const std::size_t bytes = hn::Lanes(du8);
  constexpr std::size_t kVector = 2 * std::size_t{kPair};  // of 4-bit codes; between them those of the other rows
  if constexpr (kBits == 8) {
    first = hn::LoadU(du8, codes + 2 * kVector * bytes);
    second = hn::LoadU(du8, codes + (2 * kVector + 2) * bytes);
    return;
  }
  const auto nibbles = hn::LoadU(du8, codes + kVector * bytes);
  first = hn::And(nibbles, hn::Set(du8, std::uint8_t{15}));
  second = shift_and_mask<-4>(nibbles, 15);
  if constexpr (kBits == 4 && kNonlinear) {
    first = look_up_16(first);
    second = look_up_16(second);
  }
  if constexpr (kBits == 5) {
    const auto fifth = hn::LoadU(du8, codes + 8 * bytes);
    if constexpr (kNonlinear) {
      first = look_up_32(first, as_highest_bit<2 * kPair>(fifth));
      second = look_up_32(second, as_highest_bit<2 * kPair + 1>(fifth));
    } else {
      first = hn::Or(first, high_bits<1, 4, 2 * kPair>(fifth));
      second = hn::Or(second, high_bits<1, 4, 2 * kPair + 1>(fifth));
    }
  }
  if constexpr (kBits == 6 || kBits == 7) {
    const auto high = hn::LoadU(du8, codes + (8 + kVector / 4 * 2) * bytes);
    first = hn::Or(first, high_bits<2, 4, 2 * kPair>(high));
    second = hn::Or(second, high_bits<2, 4, 2 * kPair + 1>(high));
  }
  if constexpr (kBits == 6 && kNonlinear) {
    first = count_steps(first);
    second = count_steps(second);
  }
  if constexpr (kBits == 7) {
    const auto seventh = hn::LoadU(du8, codes + 12 * bytes);
    first = hn::Or(first, high_bits<1, 6, 2 * kPair>(seventh));
    second = hn::Or(second, high_bits<1, 6, 2 * kPair + 1>(seventh));
  }
}

/// Calls body(pair, w00, w10, w01, w11) for pairs kPair to kEnd - 1 of the 4 pairs of quads of a block: quads 0 and 1
/// of the first vector of rows, then of the second, as codes of kCodeBits.
template <int kBits, int kCodeBits, int kPair = 0, int kEnd = 4, class Body>
HWY_INLINE void for_pairs_of_block(const std::uint8_t* HWY_RESTRICT codes, const Body& body) {
  if constexpr (kPair < kEnd) {
    DotBytes w00, w10, w01, w11;
    load_pair<kBits, kCodeBits, kPair>(codes, w00, w10);
    load_pair<kBits, kCodeBits, kPair>(codes + hn::Lanes(DotByteTag()), w01, w11);
    body(kPair, w00, w10, w01, w11);
    for_pairs_of_block<kBits, kCodeBits, kPair + 1, kEnd>(codes, body);
  }
}

/// Bytes of a block of a panel.
template <int kBits>
HWY_INLINE std::size_t block_bytes() {
  return 2 * hn::Lanes(DotByteTag()) * kBits;
}

/// Zero points of one vector of rows in every byte of their quads; `zeros` null means the default.
HWY_INLINE DotBytes spread_zeros(const std::uint8_t* zeros, int default_zero) {
  const DotIntTag di32;
  if (zeros == nullptr) return hn::Set(DotByteTag(), static_cast<std::uint8_t>(default_zero));
  const auto wide = hn::PromoteTo(di32, hn::LoadU(hn::Rebind<std::uint8_t, DotIntTag>(), zeros));
  const auto pairs = hn::Or(wide, hn::ShiftLeft<8>(wide));
  return hn::BitCast(DotByteTag(), hn::Or(pairs, hn::ShiftLeft<16>(pairs)));
}

/// Two quads of one vector of rows, as Dots multiplies them: where rows are paired, each half holds 8 columns of a row,
/// of the first half of the rows in every 16 bytes, then of the second.
template <class Dots>
HWY_INLINE void store_quads(DotBytes w0, DotBytes w1, std::uint8_t* first, std::uint8_t* second) {
  if constexpr (Dots::kPairsRows) {
    const auto i0 = hn::BitCast(DotIntTag(), w0);
    const auto i1 = hn::BitCast(DotIntTag(), w1);
    w0 = hn::BitCast(DotByteTag(), hn::InterleaveLower(DotIntTag(), i0, i1));
    w1 = hn::BitCast(DotByteTag(), hn::InterleaveUpper(DotIntTag(), i0, i1));
  }
  hn::StoreU(w0, DotByteTag(), first);
  hn::StoreU(w1, DotByteTag(), second);
}

/// A panel with a byte for each code of kCodeBits, `gap` bytes of something else after a group's, arranged for Dots;
/// else its blocks come to lie as those of an 8-bit panel. Where Dots wants the full range of fewer bits, their zero
/// point is that of 8-bit codes: code - zero + 128, or without the 128 where codes are signed.
template <class Dots, int kBits, int kCodeBits>
void expand_panel(const GroupLayout& layout, const std::uint8_t* HWY_RESTRICT codes, std::size_t gap,
                  const std::uint8_t* HWY_RESTRICT zeros, int default_zero, std::uint8_t* HWY_RESTRICT dst) {
  const DotByteTag du8;
  const std::size_t bytes = hn::Lanes(du8);
  const std::size_t lanes = hn::Lanes(DotIntTag());
  const auto middle = hn::Set(du8, std::uint8_t{Dots::kUnsignedCodes ? 128 : 0});
  const auto shift_of = [&](const std::uint8_t* of_zeros) HWY_ATTR {
    if constexpr (kBits == 8 || !Dots::kWidensSmallCodes) return hn::Zero(du8);
    return hn::Sub(middle, spread_zeros(of_zeros, default_zero));
  };
  for (std::size_t g = 0; g < layout.groups; g += layout.groups_of_block) {
    const std::uint8_t* group_zeros = zeros == nullptr ? nullptr : zeros + g * 2 * lanes;
    const auto shift0 = shift_of(group_zeros);
    const auto shift1 = shift_of(group_zeros == nullptr ? nullptr : group_zeros + lanes);
    for (std::size_t b = 0; b < layout.blocks_in(g); ++b) {
      for_pairs_of_block<kBits, kCodeBits>(
          codes, [&](std::size_t pair, DotBytes w00, DotBytes w10, DotBytes w01, DotBytes w11) HWY_ATTR {
            std::uint8_t* quads = dst + pair * 4 * bytes;
            store_quads<Dots>(hn::Add(w00, shift0), hn::Add(w10, shift0), quads, quads + 2 * bytes);
            store_quads<Dots>(hn::Add(w01, shift1), hn::Add(w11, shift1), quads + bytes, quads + 3 * bytes);
          });
      codes += block_bytes<kBits>();
      dst += block_bytes<8>();
    }
    codes += gap;
  }
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_MATRIX_QUANTIZED_CODES_INL_H_
