// The rows that a quantized matrix is packed from, in any layout.
#ifndef BALLAST_KERNELS_MATRIX_QUANTIZED_ROWS_H_
#define BALLAST_KERNELS_MATRIX_QUANTIZED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "ballast/codebooks.h"

namespace ballast::kernels {

/// The meaning of a matrix's codes, in groups of columns: w = (code - zero) * scale - minimum, or, with a codebook, w =
/// codebook value[code] * scale. Groups with factors or minimums have at most 32 columns.
struct CodeLayout {
  enum class Offset {
    kMiddle,   ///< the zero is 2^(bits-1)
    kZeros,    ///< each group has its own zero
    kMinimums  ///< the zero is 0, and each group has a minimum
  };

  std::size_t rows = 0;
  std::size_t cols = 0;
  int bits = 8;                                ///< 4, 5, 6 or 8; with a codebook, the codebook's
  CodebookId codebook = CodebookId::kUniform;  ///< others have kMiddle
  std::size_t group_size = 0;  ///< 16, too, with 4, 6 and 8 bits, if rows are whole blocks of 32 columns
  Offset offset = Offset::kMiddle;

  /// This many groups, a power of two, share a 16-bit scale; a group's scale is the product of that and its signed
  /// 8-bit factor. The same holds for minimums. 0: each group has its own 16-bit values.
  std::size_t groups_of_scale = 0;

  bool bf16_scales = false;  ///< else F16; for minimums, too
  bool bf16_outliers = false;
  std::vector<std::int32_t> outlier_columns;  ///< ascending

  /// Code i belongs to column column_order[i], so that columns of a group are neighbours; empty: to column i. Must be
  /// empty if there are outlier columns.
  std::vector<std::int32_t> column_order{};

  std::size_t groups() const { return (cols + group_size - 1) / group_size; }
  bool has_factors() const { return groups_of_scale != 0; }
  std::size_t scales() const { return has_factors() ? (groups() + groups_of_scale - 1) / groups_of_scale : groups(); }
};

/// One row.
struct QuantizedRow {
  std::vector<std::uint8_t> codes;           ///< [cols]
  std::vector<std::uint16_t> scales;         ///< [scales()]
  std::vector<std::uint16_t> minimums;       ///< [scales()]
  std::vector<std::int8_t> factors;          ///< [groups()]
  std::vector<std::int8_t> minimum_factors;  ///< [groups()]
  std::vector<std::uint8_t> zeros;           ///< [groups()]
  std::vector<std::uint16_t> outliers;       ///< [outlier columns]

  /// Allocates all parts that the layout has; the others stay empty.
  explicit QuantizedRow(const CodeLayout& form);
};

/// Writes row `row` of a matrix. Called from several threads.
using QuantizedRowReader = std::function<void(std::size_t row, QuantizedRow& dst)>;

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_MATRIX_QUANTIZED_ROWS_H_
