// The layout of quantized weights and activations in the memory of the kernels. Private to kernels/.
//
// Columns are cut into groups, and a group, padded, into blocks of 32 columns: 8 quads of 4. Weights come in panels of
// two vectors of output rows; a vector holds 4 columns of each of its rows, so that one instruction multiplies it by 4
// activations. A code's bits are stored in planes of 8, 4, 2 or 1 bits (BitPlane). Bytes of a block, V to a vector:
//   8 bits: [8 quads][2 vectors][V]
//   4 bits: [4 pairs of quads][2 vectors][V]: the low nibble from a pair's first quad, the high one from its second
//   2 bits: [2 fours of quads][2 vectors][V]: 2 bits from each quad, the first lowest
//   1 bit: [2 vectors][V]: 1 bit from each of the 8 quads, the first lowest
// Codes of other sizes have several planes, one after the other: 6 bits have a plane of their low 4 bits, then one of
// their high 2. Codes of a codebook are indices, which become its values of 7 bits before they are multiplied.
#ifndef BALLAST_KERNELS_MATRIX_QUANTIZED_STORAGE_H_
#define BALLAST_KERNELS_MATRIX_QUANTIZED_STORAGE_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ballast/codebooks.h"
#include "kernels/matrix/quantized_matrix.h"
#include "kernels/parallel.h"
#include "kernels/scratch.h"

namespace ballast::kernels {

inline constexpr std::size_t kQuadColumns = 4;
inline constexpr std::size_t kBlockQuads = 8;
inline constexpr std::size_t kBlockColumns = kQuadColumns * kBlockQuads;

/// The position of columns when every group is padded to whole blocks; two groups of half a block share one. Wide
/// groups are divided into parts with the same scale, because 16-bit activations need a scale for every few columns.
struct GroupLayout {
  static constexpr std::size_t kWidestPart = 128;

  std::size_t cols = 0;
  std::size_t group_size = 0;  ///< of a group here, which may be part of one of the matrix
  std::size_t groups = 0;
  std::size_t groups_of_block = 1;  ///< 2: of half a block each
  std::size_t group_blocks = 0;     ///< of every group but the last
  std::size_t blocks = 0;           ///< of a row

  GroupLayout() = default;
  GroupLayout(std::size_t columns, std::size_t columns_of_group)
      : cols(columns),
        group_size(part_of(columns, columns_of_group)),
        groups((cols + group_size - 1) / group_size),
        groups_of_block(group_size == kBlockColumns / 2 && cols % kBlockColumns == 0 ? 2 : 1),
        group_blocks((group_size + kBlockColumns - 1) / kBlockColumns),
        blocks(groups == 0 ? 0 : (groups / groups_of_block - 1) * group_blocks + blocks_in(groups - 1)) {}

  std::size_t columns_in(std::size_t group) const {
    return group + 1 == groups ? cols - group * group_size : group_size;
  }
  std::size_t blocks_in(std::size_t group) const { return (columns_in(group) + kBlockColumns - 1) / kBlockColumns; }
  std::size_t padded_in(std::size_t group) const { return blocks_in(group) * kBlockColumns / groups_of_block; }
  std::size_t padded_begin(std::size_t group) const { return group * group_blocks * kBlockColumns / groups_of_block; }
  std::size_t padded_cols() const { return blocks * kBlockColumns; }

 private:
  static std::size_t part_of(std::size_t columns, std::size_t columns_of_group) {
    const bool divides = columns_of_group >= columns || columns_of_group % kWidestPart == 0;
    return divides ? std::min(columns_of_group, kWidestPart) : columns_of_group;
  }
};

/// Splits the tokens of a batch into contiguous partitions. One thread quantizes and multiplies most of a partition, so
/// that its codes stay in that core's cache (2 cores of Zen 4, SmolLM2: prompts 1.27 times as fast).
struct TokenPartitions {
  static constexpr std::size_t kTokensPerPartition = 24;  ///< with fewer, panels are read too often

  std::size_t m;
  std::size_t count;

  TokenPartitions(std::size_t tokens, std::size_t threads)
      : m(tokens),
        count(std::clamp<std::size_t>(tokens / kTokensPerPartition, 1, std::min(threads, kMostPartitions))) {}

  std::size_t begin(std::size_t partition) const { return m * partition / count; }
  std::size_t largest() const { return (m + count - 1) / count; }
};

/// Factor between the two INT8 planes of a 16-bit code: code = 255 high + low, both in [-127, 127].
inline constexpr int kPlaneFactor = 255;

struct QuantizedActivations::Storage {
  ActivationQuantization format;
  GroupLayout layout;
  std::size_t m = 0;
  AlignedArray<std::int8_t> codes;          ///< [m][planes][padded_cols]; the high plane first
  AlignedArray<float> scales;               ///< [m][groups]; parts of a group repeat its scale
  AlignedArray<std::int32_t> negated_sums;  ///< [m][planes][groups]: -(sum of the group's codes)
  AlignedArray<float> outliers;             ///< [m][outlier columns]

  std::size_t planes() const { return format.type == ActivationType::kInt16 ? 2 : 1; }

  /// Allocates the memory of `tokens` tokens.
  void prepare(std::size_t tokens, const ActivationQuantization& wanted);
};

/// Bits of codes that are packed together. A block has them in `count` pieces from `first` on. A piece is the bytes of
/// all rows of a panel; a byte contains several quads, the first lowest.
struct BitPlane {
  int first;  ///< the lowest of the bits in a code, and the first piece
  int count;  ///< 1, 2, 4 or 8

  constexpr int quads_of_byte() const { return 8 / count; }
  constexpr int mask() const { return (1 << count) - 1; }
  constexpr int shift(int quad) const { return quad % quads_of_byte() * count; }
  constexpr std::size_t piece_of(int quad) const {
    return static_cast<std::size_t>(first) + static_cast<std::size_t>(quad / quads_of_byte());
  }
};

/// Returns the plane of codes of `bits` bits that begins at bit `first`. The first plane has the largest power of two
/// of bits, and each next plane the largest power of two in the remaining bits: 7 bits are planes of 4, 2 and 1.
constexpr BitPlane bit_plane(int bits, int first) {
  return {first, static_cast<int>(std::bit_floor(static_cast<unsigned>(bits - first)))};
}

/// Returns a value of a codebook as the unsigned number that is multiplied.
constexpr std::uint8_t multiplied_value(const Codebook& book, std::size_t code) {
  return static_cast<std::uint8_t>(book.values[code] + (1 << (value_bits(book) - 1)));
}

/// The values of a codebook as multiplied, in whole vectors of 16 bytes, for lookup by the kernels.
template <CodebookId kBook>
alignas(16) inline constexpr auto kCodebookTable = [] {
  constexpr std::size_t kCount = codebook(kBook).values.size();
  std::array<std::uint8_t, std::max<std::size_t>(kCount, 16)> table{};
  for (std::size_t i = 0; i < kCount; ++i) table[i] = multiplied_value(codebook(kBook), i);
  return table;
}();

/// The values of a codebook of 2 or 3 bits by 4 bits that have the low bits of two quads' codes. With 3 bits, the third
/// bit of the quad that is looked up replaces a bit of the other quad: bit 2 for the first quad, bit 1 for the second.
template <CodebookId kBook>
struct PairTables {
  static constexpr std::size_t kThird = codebook(kBook).bits == 3 ? 1 : 0;

  alignas(16) static constexpr std::array<std::uint8_t, 16> kFirst = [] {
    std::array<std::uint8_t, 16> table{};
    for (std::size_t i = 0; i < table.size(); ++i) {
      table[i] = multiplied_value(codebook(kBook), (i & 3) | (kThird * (i & 4)));
    }
    return table;
  }();
  alignas(16) static constexpr std::array<std::uint8_t, 16> kSecond = [] {
    std::array<std::uint8_t, 16> table{};
    for (std::size_t i = 0; i < table.size(); ++i) {
      table[i] = multiplied_value(codebook(kBook), (i >> 2) | (kThird * ((i & 2) << 1)));
    }
    return table;
  }();
};

struct QuantizedMatrix::Storage {
  CodeLayout form;
  GroupLayout layout;
  std::size_t width = 0;  ///< rows of a panel
  std::size_t panels = 0;
  int shared_shift = 0;        ///< log2 of groups_of_scale
  std::uint8_t sign_flip = 0;  ///< 128 if 8-bit codes are stored less 128, as signed bytes
  /// [panels][panel_bytes()], which a product with one token reads in order: heads and codes of groups, then the
  /// weights of outlier columns [columns][width]. A head has a group's scales [width], or factors, then its minimums',
  /// if any; where groups share a block, their heads precede it. After all panels follows [panels][tail_bytes()]: the
  /// groups' zero points [groups][width], or the scales that factors multiply, [scales][width], each with its minimums.
  std::shared_ptr<std::byte[]> memory;

  std::size_t block_bytes() const { return kBlockColumns * width * static_cast<std::size_t>(form.bits) / 8; }
  bool has_minimums() const { return form.offset == CodeLayout::Offset::kMinimums; }
  std::size_t scale_bytes() const { return width * (form.has_factors() ? sizeof(std::int8_t) : sizeof(std::uint16_t)); }
  std::size_t head_bytes() const { return scale_bytes() * (has_minimums() ? 2 : 1); }
  std::size_t heads_of_block_bytes() const { return head_bytes() * layout.groups_of_block; }
  /// Returns the bytes of a group, or of two that share a block. Not for the last group.
  std::size_t group_bytes() const { return heads_of_block_bytes() + layout.group_blocks * block_bytes(); }
  std::size_t head_at(std::size_t group) const {
    return group / layout.groups_of_block * group_bytes() + group % layout.groups_of_block * head_bytes();
  }
  std::size_t outlier_bytes() const { return width * sizeof(std::uint16_t); }
  std::size_t outliers_at() const { return layout.groups * head_bytes() + layout.blocks * block_bytes(); }
  std::size_t panel_bytes() const { return outliers_at() + form.outlier_columns.size() * outlier_bytes(); }
  std::size_t shared_scale_values() const { return width * (has_minimums() ? 2 : 1); }
  std::size_t tail_bytes() const {
    if (form.offset == CodeLayout::Offset::kZeros) return layout.groups * width;
    return form.has_factors() ? form.scales() * shared_scale_values() * sizeof(std::uint16_t) : 0;
  }
  std::size_t bytes() const { return panels * (panel_bytes() + tail_bytes()); }
  /// Returns the bits of codes as multiplied.
  int code_bits() const {
    return form.codebook == CodebookId::kUniform ? form.bits : value_bits(codebook(form.codebook));
  }
  int default_zero() const { return has_minimums() ? 0 : 1 << (code_bits() - 1); }

  std::byte* panel(std::size_t index) const { return memory.get() + index * panel_bytes(); }
  std::uint8_t* panel_codes(std::size_t index) const {
    return reinterpret_cast<std::uint8_t*>(panel(index) + heads_of_block_bytes());
  }
  std::uint16_t* panel_outliers(std::size_t index) const {
    return reinterpret_cast<std::uint16_t*>(panel(index) + outliers_at());
  }
  std::byte* panel_tail(std::size_t index) const { return panel(panels) + index * tail_bytes(); }
  std::uint8_t* panel_zeros(std::size_t index) const {
    const bool own = form.offset == CodeLayout::Offset::kZeros;
    return own ? reinterpret_cast<std::uint8_t*>(panel_tail(index)) : nullptr;
  }
  std::uint16_t* panel_shared_scales(std::size_t index) const {
    return form.has_factors() ? reinterpret_cast<std::uint16_t*>(panel_tail(index)) : nullptr;
  }
};

/// Returns whether this machine's kernels multiply 8-bit codes as unsigned bytes; otherwise as signed ones.
bool multiplies_unsigned_codes();

/// Largest group allowed: its sums, at most 255 * 127 * kLargestGroup, fit INT32 with room to spare.
inline constexpr std::size_t kLargestGroup = 32768;

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_MATRIX_QUANTIZED_STORAGE_H_
