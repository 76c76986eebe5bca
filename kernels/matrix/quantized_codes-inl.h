// Decodes the codes of a panel to what the dot products multiply: a vector of bytes for each quad and vector of rows.
#if defined(BALLAST_KERNELS_MATRIX_QUANTIZED_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_MATRIX_QUANTIZED_CODES_INL_H_
#undef BALLAST_KERNELS_MATRIX_QUANTIZED_CODES_INL_H_
#else
#define BALLAST_KERNELS_MATRIX_QUANTIZED_CODES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "ballast/codebooks.h"
#include "kernels/matrix/dot-inl.h"
#include "kernels/matrix/quantized_storage.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// How the codes of a panel are stored and multiplied: kBits are stored, and numbers of kCodeBits bits are multiplied:
/// the codes themselves or the values of kBook.
template <int kStoredBits, int kMultipliedBits, CodebookId kCodebook = CodebookId::kUniform>
struct PanelCodes {
  static constexpr int kBits = kStoredBits;
  static constexpr int kCodeBits = kMultipliedBits;
  static constexpr CodebookId kBook = kCodebook;
};

template <int kBits>
using UniformCodes = PanelCodes<kBits, kBits>;

template <CodebookId kBook>
using CodebookCodes = PanelCodes<codebook(kBook).bits, value_bits(codebook(kBook)), kBook>;

/// Calls body(PanelCodes()) for a codebook.
template <class Body>
HWY_INLINE void with_codebook_codes(CodebookId id, const Body& body) {
  [&]<std::size_t... kRow>(std::index_sequence<kRow...>) HWY_ATTR {
    (..., (kCodebooks[kRow].id == id ? body(CodebookCodes<kCodebooks[kRow].id>()) : void()));
  }(std::make_index_sequence<kCodebooks.size()>());
}

/// Shifts bits left (kShift > 0) or right, in 16-bit lanes, because no target shifts bytes: bits that leave a byte are
/// in its neighbour.
template <int kShift>
HWY_INLINE DotBytes shift_bits(DotBytes bytes) {
  if constexpr (kShift == 0) return bytes;
  const hn::Repartition<std::uint16_t, DotByteTag> du16;
  const auto wide = hn::BitCast(du16, bytes);
  const auto shifted =
      kShift >= 0 ? hn::ShiftLeft<(kShift >= 0 ? kShift : 0)>(wide) : hn::ShiftRight<(kShift >= 0 ? 0 : -kShift)>(wide);
  return hn::BitCast(DotByteTag(), shifted);
}

/// Shifts bits left (kShift > 0) or right, then masks them.
template <int kShift>
HWY_INLINE DotBytes shift_and_mask(DotBytes bytes, int mask) {
  return hn::And(shift_bits<kShift>(bytes), hn::Set(DotByteTag(), static_cast<std::uint8_t>(mask)));
}

/// Replaces bit kBit of each byte by bit kFrom of `from`.
template <int kBit, int kFrom>
HWY_INLINE DotBytes replace_bit(DotBytes bytes, DotBytes from) {
  const auto mask = hn::Set(DotByteTag(), std::uint8_t{1U << kBit});
  return hn::BitwiseIfThenElse(mask, shift_bits<kBit - kFrom>(from), bytes);
}

/// Returns quads 2 kPair and 2 kPair + 1 of a block, of one vector of rows: the planes of kBits-bit codes from bit
/// kFirst on.
template <int kBits, int kFirst, int kPair>
HWY_INLINE void load_planes(const std::uint8_t* HWY_RESTRICT codes, DotBytes& first, DotBytes& second) {
  constexpr BitPlane kPlane = bit_plane(kBits, kFirst);
  constexpr int kQuad = 2 * kPair;
  const std::size_t bytes = hn::Lanes(DotByteTag());
  const auto packed = hn::LoadU(DotByteTag(), codes + 2 * kPlane.piece_of(kQuad) * bytes);
  const auto bits0 = shift_and_mask<kFirst - kPlane.shift(kQuad)>(packed, kPlane.mask() << kFirst);
  const auto bits1 = shift_and_mask<kFirst - kPlane.shift(kQuad + 1)>(packed, kPlane.mask() << kFirst);
  if constexpr (kFirst == 0) {
    first = bits0;
    second = bits1;
  } else {
    first = hn::Or(first, bits0);
    second = hn::Or(second, bits1);
  }
  if constexpr (kFirst + kPlane.count < kBits) load_planes<kBits, kFirst + kPlane.count, kPair>(codes, first, second);
}

/// Returns bit kQuad of every byte as the highest bit; the other bits are arbitrary.
template <int kQuad>
HWY_INLINE DotBytes as_highest_bit(DotBytes bytes) {
  const hn::Repartition<std::uint16_t, DotByteTag> du16;
  return hn::BitCast(DotByteTag(), hn::ShiftLeft<7 - kQuad>(hn::BitCast(du16, bytes)));
}

/// Looks up the values of a codebook with 16.
template <CodebookId kBook>
HWY_INLINE DotBytes look_up_16(DotBytes indices) {
  return hn::TableLookupBytes(hn::LoadDup128(DotByteTag(), kCodebookTable<kBook>.data()), indices);
}

/// Returns quads 2 kPair and 2 kPair + 1 of a block by a codebook of 2 or 3 bits. Both quads have their low 2 bits in
/// the same 4 bits of a byte, which are masked once; each quad has a table that ignores the other's bits.
template <CodebookId kBook, int kPair>
HWY_INLINE void look_up_pair(const std::uint8_t* HWY_RESTRICT codes, DotBytes& first, DotBytes& second) {
  constexpr int kBits = codebook(kBook).bits;
  constexpr int kQuad = 2 * kPair;
  constexpr BitPlane kLow = bit_plane(kBits, 0);
  static_assert(kLow.count == 2 && (kBits == 2 || kBits == 3));
  const DotByteTag du8;
  const std::size_t bytes = hn::Lanes(du8);
  const auto low_bits =
      shift_and_mask<-kLow.shift(kQuad)>(hn::LoadU(du8, codes + 2 * kLow.piece_of(kQuad) * bytes), 0x0F);
  first = low_bits;
  second = low_bits;
  if constexpr (kBits == 3) {
    constexpr BitPlane kThird = bit_plane(kBits, 2);
    const auto third = hn::LoadU(du8, codes + 2 * kThird.piece_of(kQuad) * bytes);
    first = replace_bit<2, kThird.shift(kQuad)>(first, third);
    second = replace_bit<1, kThird.shift(kQuad + 1)>(second, third);
  }
  first = hn::TableLookupBytes(hn::LoadDup128(du8, PairTables<kBook>::kFirst.data()), first);
  second = hn::TableLookupBytes(hn::LoadDup128(du8, PairTables<kBook>::kSecond.data()), second);
}

/// Looks up the values of a codebook with 32, by the low 4 bits of an index, and the fifth as the highest bit of a byte
/// whose other bits are arbitrary.
template <CodebookId kBook>
HWY_INLINE DotBytes look_up_32(DotBytes low_bits, DotBytes fifth) {
  const DotByteTag du8;
  const DotSignedByteTag di8;
  const auto low = hn::TableLookupBytes(hn::LoadDup128(du8, kCodebookTable<kBook>.data()), low_bits);
  const auto high = hn::TableLookupBytes(hn::LoadDup128(du8, kCodebookTable<kBook>.data() + 16), low_bits);
  return hn::BitCast(du8,
                     hn::IfNegativeThenElse(hn::BitCast(di8, fifth), hn::BitCast(di8, high), hn::BitCast(di8, low)));
}

/// Returns the values of nl6: beyond either bend, one more step for each step.
HWY_INLINE DotBytes count_nl6_steps(DotBytes indices) {
  constexpr int kMiddle = 32;
  constexpr int kBend = codebook_values::kNl6Bend;
  const DotByteTag du8;
  const auto of = [&](int value) HWY_ATTR { return hn::Set(du8, static_cast<std::uint8_t>(value)); };
  const auto above = hn::SaturatedSub(indices, of(kMiddle + kBend));
  const auto below = hn::SaturatedSub(of(kMiddle - kBend), indices);
  return hn::Add(hn::Sub(hn::Add(indices, of(kCodebookZero - kMiddle)), below), above);
}

/// Returns quads 2 kPair and 2 kPair + 1 of a block, of one vector of rows, as multiplied. `codes` points to the first
/// bytes of that vector.
template <class Codes, int kPair>
HWY_INLINE void load_pair(const std::uint8_t* HWY_RESTRICT codes, DotBytes& first, DotBytes& second) {
  constexpr int kBits = Codes::kBits;
  constexpr CodebookId kBook = Codes::kBook;
  const DotByteTag du8;
  const std::size_t bytes = hn::Lanes(du8);
  if constexpr (kBits == 8) {
    first = hn::LoadU(du8, codes + std::size_t{4} * kPair * bytes);
    second = hn::LoadU(du8, codes + (4 * kPair + 2) * bytes);
  } else if constexpr (kBook == CodebookId::kUniform) {
    load_planes<kBits, 0, kPair>(codes, first, second);
  } else if constexpr (kBits <= 3) {
    look_up_pair<kBook, kPair>(codes, first, second);
  } else if constexpr (kBits == 5) {
    constexpr BitPlane kFifth = bit_plane(kBits, 4);
    load_planes<4, 0, kPair>(codes, first, second);
    const auto fifth = hn::LoadU(du8, codes + 2 * kFifth.piece_of(2 * kPair) * bytes);
    first = look_up_32<kBook>(first, as_highest_bit<2 * kPair>(fifth));
    second = look_up_32<kBook>(second, as_highest_bit<2 * kPair + 1>(fifth));
  } else {
    load_planes<kBits, 0, kPair>(codes, first, second);
    if constexpr (kBits == 4) {
      first = look_up_16<kBook>(first);
      second = look_up_16<kBook>(second);
    } else if constexpr (kBook == CodebookId::kNl6) {
      first = count_nl6_steps(first);
      second = count_nl6_steps(second);
    } else {
      static_assert(has_consecutive_values(codebook(kBook)), "a codebook of 64 values needs a way to decode it");
    }
  }
}

/// Calls body(pair, w00, w10, w01, w11) for pairs kPair to kEnd - 1 of the 4 pairs of quads of a block: quads 0 and 1
/// of the first vector of rows, then of the second, as multiplied.
template <class Codes, int kPair = 0, int kEnd = 4, class Body>
HWY_INLINE void for_pairs_of_block(const std::uint8_t* HWY_RESTRICT codes, const Body& body) {
  if constexpr (kPair < kEnd) {
    DotBytes w00, w10, w01, w11;
    load_pair<Codes, kPair>(codes, w00, w10);
    load_pair<Codes, kPair>(codes + hn::Lanes(DotByteTag()), w01, w11);
    body(kPair, w00, w10, w01, w11);
    for_pairs_of_block<Codes, kPair + 1, kEnd>(codes, body);
  }
}

/// Returns the bytes of a block of a panel.
template <int kBits>
HWY_INLINE std::size_t block_bytes() {
  return 2 * hn::Lanes(DotByteTag()) * kBits;
}

/// Copies the zero points of one vector of rows to every byte of their quads; `zeros` null means the default.
HWY_INLINE DotBytes spread_zeros(const std::uint8_t* zeros, int default_zero) {
  const DotIntTag di32;
  if (zeros == nullptr) return hn::Set(DotByteTag(), static_cast<std::uint8_t>(default_zero));
  const auto wide = hn::PromoteTo(di32, hn::LoadU(hn::Rebind<std::uint8_t, DotIntTag>(), zeros));
  const auto pairs = hn::Or(wide, hn::ShiftLeft<8>(wide));
  return hn::BitCast(DotByteTag(), hn::Or(pairs, hn::ShiftLeft<16>(pairs)));
}

/// Arranges two quads of one vector of rows for Dots: where rows are paired, each half contains 8 columns of a row, of
/// the first half of the rows in every 16 bytes, then of the second.
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

/// Writes a panel with a byte for each code, arranged for Dots or else as an 8-bit panel. In the source, `gap` bytes of
/// other data follow the codes of a group. Where Dots widens codes of fewer bits, their zero point becomes that of
/// 8-bit codes: code - zero + 128, or code - zero where 8-bit codes are signed.
template <class Dots, class Codes>
void expand_panel(const GroupLayout& layout, const std::uint8_t* HWY_RESTRICT codes, std::size_t gap,
                  const std::uint8_t* HWY_RESTRICT zeros, int default_zero, std::uint8_t* HWY_RESTRICT dst) {
  const DotByteTag du8;
  const std::size_t bytes = hn::Lanes(du8);
  const std::size_t lanes = hn::Lanes(DotIntTag());
  const auto middle = hn::Set(du8, std::uint8_t{Dots::kUnsignedCodes ? 128 : 0});
  const auto shift_of = [&](const std::uint8_t* of_zeros) HWY_ATTR {
    if constexpr (Codes::kBits == 8 || !Dots::kWidensSmallCodes) return hn::Zero(du8);
    return hn::Sub(middle, spread_zeros(of_zeros, default_zero));
  };
  for (std::size_t g = 0; g < layout.groups; g += layout.groups_of_block) {
    const std::uint8_t* group_zeros = zeros == nullptr ? nullptr : zeros + g * 2 * lanes;
    const auto shift0 = shift_of(group_zeros);
    const auto shift1 = shift_of(group_zeros == nullptr ? nullptr : group_zeros + lanes);
    for (std::size_t b = 0; b < layout.blocks_in(g); ++b) {
      for_pairs_of_block<Codes>(
          codes, [&](std::size_t pair, DotBytes w00, DotBytes w10, DotBytes w01, DotBytes w11) HWY_ATTR {
            std::uint8_t* quads = dst + pair * 4 * bytes;
            store_quads<Dots>(hn::Add(w00, shift0), hn::Add(w10, shift0), quads, quads + 2 * bytes);
            store_quads<Dots>(hn::Add(w01, shift1), hn::Add(w11, shift1), quads + bytes, quads + 3 * bytes);
          });
      codes += block_bytes<Codes::kBits>();
      dst += block_bytes<8>();
    }
    codes += gap;
  }
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_MATRIX_QUANTIZED_CODES_INL_H_
