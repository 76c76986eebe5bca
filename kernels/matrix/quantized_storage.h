// How quantized weights and activations lie in memory for the kernels. Private to kernels/.
//
// Columns are cut into groups, and a group, padded, into blocks of 32 columns: 8 quads of 4. Weights come in panels of
// two vectors of output rows; a vector holds 4 columns of each of its rows, so that one instruction multiplies it by 4
// activations. Bytes of a block, V to a vector:
//   8 bits: [8 quads][2 vectors][V]
//   4 bits: [4 pairs of quads][2 vectors][V]: the low nibble from a pair's first quad, the high one from its second
//   6 bits: the low 4 bits as above, then [2 fours of quads][2 vectors][V]: 2 bits from each quad, the first lowest
//   5 bits: the low 4 bits as above, then [2 vectors][V]: 1 bit from each of the 8 quads, the first lowest
//   7 bits: the low 6 bits as above, then [2 vectors][V] of 1 bit from each quad
// Non-linear codes are places in a table of codes of more bits, which they become before they are multiplied.
#ifndef BALLAST_KERNELS_MATRIX_QUANTIZED_STORAGE_H_
#define BALLAST_KERNELS_MATRIX_QUANTIZED_STORAGE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/matrix/quantized_matrix.h"
#include "kernels/parallel.h"
#include "kernels/scratch.h"

namespace ballast::kernels {

inline constexpr std::size_t kQuadColumns = 4;
inline constexpr std::size_t kBlockQuads = 8;
inline constexpr std::size_t kBlockColumns = kQuadColumns * kBlockQuads;

/// Where columns go when every group is padded to whole blocks; but two groups of half a block share one. Wide groups
/// are cut into parts that share their scale: activations in 16 bits want scales of their own for few columns.
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

/// How tokens are shared out: each of `count` homes has a run of them, which one thread quantizes and multiplies as
/// long as it can, so that codes do not wander between caches (2 cores of Zen 4, SmolLM2: prompts 1.27 times as fast).
struct TokenPartitions {
  static constexpr std::size_t kTokensWorthAHome = 24;  ///< below, panels are read too often for too little

  std::size_t m;
  std::size_t count;

  TokenPartitions(std::size_t tokens, std::size_t threads)
      : m(tokens), count(std::clamp<std::size_t>(tokens / kTokensWorthAHome, 1, std::min(threads, kMostPartitions))) {}

  std::size_t begin(std::size_t partition) const { return m * partition / count; }
  std::size_t largest() const { return (m + count - 1) / count; }
};

/// Factor between the two INT8 planes of a 16-bit code: code = 255 high + low, both in [-127, 127].
inline constexpr int kPlaneFactor = 255;

struct QuantizedActivations::Storage {
  ActivationFormat format;
  GroupLayout layout;
  std::size_t m = 0;
  AlignedArray<std::int8_t> codes;          ///< [m][planes][padded_cols]; the high plane first
  AlignedArray<float> scales;               ///< [m][groups]; what is shared is repeated
  AlignedArray<std::int32_t> negated_sums;  ///< [m][planes][groups]: -(sum of the group's codes)
  AlignedArray<float> outliers;             ///< [m][outlier columns]

  std::size_t planes() const { return format.bits == 16 ? 2 : 1; }
};

/// Tables of non-linear codes that are looked up, for loads of whole vectors: codes of 7 bits.
template <std::size_t kCount>
constexpr std::array<std::uint8_t, kCount> codes_of_table(const std::array<std::int8_t, kCount>& values) {
  std::array<std::uint8_t, kCount> codes{};
  for (std::size_t i = 0; i < kCount; ++i) codes[i] = static_cast<std::uint8_t>(values[i] + kNonlinearZero);
  return codes;
}
alignas(16) inline constexpr auto kNonlinearCodes4 = codes_of_table(kNonlinear4);
alignas(16) inline constexpr auto kNonlinearCodes5 = codes_of_table(kNonlinear5);

inline constexpr int kNonlinearCodeBits = 7;

struct QuantizedMatrix::Storage {
  CodeLayout form;
  GroupLayout layout;
  std::size_t width = 0;  ///< rows of a panel
  std::size_t panels = 0;
  int shared_shift = 0;        ///< log2 of groups_of_scale
  std::uint8_t sign_flip = 0;  ///< 128 when 8-bit codes are kept minus 128, as signed bytes
  /// [panels][panel_bytes()], which a token reads from end to end: heads and codes of groups, then the weights of
  /// outlier columns [columns][width]. A head has a group's scales [width], or factors, then its minimums', if any;
  /// where groups share a block, their heads stand before it. After all panels follows [panels][tail_bytes()]: the
  /// groups' zero points [groups][width], or the scales that factors multiply, [scales][width], each with its minimums.
  std::shared_ptr<std::byte[]> memory;

  std::size_t block_bytes() const { return kBlockColumns * width * static_cast<std::size_t>(form.bits) / 8; }
  bool has_minimums() const { return form.offset == CodeLayout::Offset::kMinimums; }
  std::size_t scale_bytes() const { return width * (form.has_factors() ? sizeof(std::int8_t) : sizeof(std::uint16_t)); }
  std::size_t head_bytes() const { return scale_bytes() * (has_minimums() ? 2 : 1); }
  std::size_t heads_of_block_bytes() const { return head_bytes() * layout.groups_of_block; }
  /// Of a group, or of two that share a block; but the last's.
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
  /// Of codes as they are multiplied.
  int code_bits() const { return form.nonlinear ? kNonlinearCodeBits : form.bits; }
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

/// Whether this machine's kernels multiply 8-bit codes as unsigned bytes; else as signed ones.
bool multiplies_unsigned_codes();

/// Largest group allowed: its sums, at most 255 * 127 * kLargestGroup, fit INT32 with room to spare.
inline constexpr std::size_t kLargestGroup = 32768;

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_MATRIX_QUANTIZED_STORAGE_H_
