// How quantized weights and activations lie in memory for the kernels. Private to kernels/.
//
// Columns are cut into groups and a group, padded, into pairs of quads: 4 + 4 columns. Weights come in panels of two
// vectors of output rows; a vector holds 4 columns of each of its rows, so that one instruction multiplies it by 4
// activations. Bytes of a panel: [pairs][2 quads][2 vectors][lanes][4] at 8 bits; at 4 bits [pairs][2
// vectors][lanes][4], the low nibble from a pair's first quad, the high one from its second.
#ifndef BALLAST_KERNELS_QUANTIZED_STORAGE_H_
#define BALLAST_KERNELS_QUANTIZED_STORAGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/quantized_matrix.h"
#include "kernels/scratch.h"

namespace ballast::kernels {

/// Where columns go when every group is padded to whole pairs of quads.
struct GroupLayout {
  static constexpr std::size_t kPairColumns = 8;

  std::size_t cols = 0;
  std::size_t group_size = 0;
  std::size_t groups = 0;
  std::size_t group_pairs = 0;  ///< of every group but the last
  std::size_t pairs = 0;        ///< of a row

  GroupLayout() = default;
  GroupLayout(std::size_t columns, std::size_t columns_of_group)
      : cols(columns),
        group_size(columns_of_group),
        groups((cols + group_size - 1) / group_size),
        group_pairs((group_size + kPairColumns - 1) / kPairColumns),
        pairs(groups == 0 ? 0 : (groups - 1) * group_pairs + pairs_in(groups - 1)) {}

  std::size_t columns_in(std::size_t group) const {
    return group + 1 == groups ? cols - group * group_size : group_size;
  }
  std::size_t pairs_in(std::size_t group) const { return (columns_in(group) + kPairColumns - 1) / kPairColumns; }
  std::size_t padded_cols() const { return pairs * kPairColumns; }
};

struct Int8Activations::Storage {
  ActivationFormat format;
  GroupLayout layout;
  std::size_t m = 0;
  AlignedArray<std::int8_t> codes;      ///< [m][padded_cols]
  AlignedArray<float> scales;           ///< [m][groups]; one scale per token is repeated
  AlignedArray<std::int32_t> sums;      ///< [m][groups]: sum of the group's codes
  AlignedArray<std::int32_t> offsets4;  ///< [m][groups]: -8 * sums, what symmetric INT4 weights start a group with
  AlignedArray<std::int32_t> offsets8;  ///< [m][groups]: -128 * sums, for INT8
  AlignedArray<float> outliers;         ///< [m][outlier columns]
};

struct QuantizedMatrix::Storage {
  std::size_t rows = 0;
  int bits = 8;
  GroupLayout layout;
  std::size_t width = 0;  ///< rows of a panel
  std::size_t panels = 0;
  bool bf16_scales = false;
  bool bf16_outliers = false;
  AlignedArray<std::uint8_t> codes;    ///< [panels][panel_bytes()]
  AlignedArray<std::uint16_t> scales;  ///< [panels][groups][width]
  AlignedArray<std::uint8_t> zeros;    ///< [panels][groups][width], empty when symmetric
  std::vector<std::int32_t> outlier_columns;
  AlignedArray<std::uint16_t> outlier_weights;  ///< [panels][outlier columns][width]

  std::size_t panel_bytes() const { return layout.padded_cols() * width * static_cast<std::size_t>(bits) / 8; }
  bool symmetric() const { return zeros.size() == 0; }
  int default_zero() const { return 1 << (bits - 1); }

  const std::uint8_t* panel_codes(std::size_t panel) const { return codes.data() + panel * panel_bytes(); }
  const std::uint16_t* panel_scales(std::size_t panel) const { return scales.data() + panel * layout.groups * width; }
  const std::uint8_t* panel_zeros(std::size_t panel) const {
    return symmetric() ? nullptr : zeros.data() + panel * layout.groups * width;
  }
  const std::uint16_t* panel_outliers(std::size_t panel) const {
    return outlier_weights.data() + panel * outlier_columns.size() * width;
  }

  /// The code of row `row` of a panel at `padded_col` of the layout.
  std::uint8_t code(std::size_t panel, std::size_t row, std::size_t padded_col) const {
    const std::size_t pair = padded_col / 8;
    const std::size_t quad = padded_col / 4 % 2;
    const std::size_t byte = row * 4 + padded_col % 4;
    if (bits == 8) return panel_codes(panel)[(pair * 2 + quad) * width * 4 + byte];
    return static_cast<std::uint8_t>((panel_codes(panel)[pair * width * 4 + byte] >> (4 * quad)) & 15);
  }
};

/// Largest group allowed: its sums, at most 255 * 127 * kLargestGroup, fit INT32 with room to spare.
inline constexpr std::size_t kLargestGroup = 32768;

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_QUANTIZED_STORAGE_H_
