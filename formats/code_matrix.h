// A matrix of codes in memory of its own, in any format that ballast writes.
#ifndef BALLAST_FORMATS_CODE_MATRIX_H_
#define BALLAST_FORMATS_CODE_MATRIX_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ballast/quantized.h"
#include "ballast/recipe.h"
#include "ballast/tensor.h"
#include "kernels/matrix/quantized_matrix.h"

namespace ballast::formats {

/// A matrix [rows = outputs, cols = inputs]. What its format has no use for is empty. A GGUF's blocks have their scales
/// among their codes.
struct CodeMatrix {
  CodeMatrix() = default;

  /// All arrays have their sizes and are 0. `weight_format` quantizes; `half_type` (kF16 or kBF16) is the type of
  /// all 16-bit values.
  CodeMatrix(std::size_t row_count, std::size_t col_count, const WeightFormat& weight_format,
             std::span<const std::int32_t> outliers, DType half_type);

  /// Copies all parts of a matrix in one of ballast's formats.
  explicit CodeMatrix(const QuantizedView& view);

  std::size_t rows = 0;
  std::size_t cols = 0;
  WeightFormat format;
  std::vector<std::uint8_t> codes;             ///< [rows][row_bytes()]: a dense string of bits, or blocks
  DType scale_type = DType::kF16;              ///< kF16 or kBF16: of scales, row scales and offsets
  std::vector<std::uint16_t> scales;           ///< [rows][groups()]
  std::vector<std::uint8_t> scale_codes;       ///< 8-bit scales: [rows][groups()], what `scales` is stored as
  std::vector<std::uint16_t> row_scales;       ///< 8-bit scales: [rows]
  std::vector<std::uint8_t> zeros;             ///< asymmetric: [rows][packed_row_bytes(groups(), bits)]
  std::vector<std::uint16_t> offsets;          ///< MLX: [rows][groups()], weight = code * scale + offset
  std::vector<std::int32_t> outlier_columns;   ///< ascending
  DType outlier_type = DType::kF16;            ///< kF16 or kBF16
  std::vector<std::uint16_t> outlier_weights;  ///< [rows][outlier_columns.size()]

  std::size_t row_bytes() const;   ///< of codes
  std::size_t group_size() const;  ///< columns that share a scale; not of blocks
  std::size_t groups() const { return (cols + group_size() - 1) / group_size(); }

  /// Returns a view of a matrix in one of ballast's formats.
  QuantizedView view() const;

  /// Returns the same codes in the layout that kernels multiply. Blocks that have none are rounded to INT8 in groups of
  /// 32.
  kernels::QuantizedMatrix packed() const;

  /// Returns the values, outlier columns included: [rows][cols]. Parallel over rows.
  std::vector<float> decoded() const;
};

/// Calls visit(array) for each array of a matrix, in a fixed order.
template <typename Matrix, typename Visit>
void for_each_array(Matrix& matrix, const Visit& visit) {
  visit(matrix.codes);
  visit(matrix.scales);
  visit(matrix.scale_codes);
  visit(matrix.row_scales);
  visit(matrix.zeros);
  visit(matrix.offsets);
  visit(matrix.outlier_columns);
  visit(matrix.outlier_weights);
}

/// Returns the format of a view; one group for a row has the row's size here.
WeightFormat format_of(const QuantizedView& matrix);

/// Unpacks the codes of row `row`; `codes` has cols.
void unpack_row(const QuantizedView& matrix, std::size_t row, std::span<std::uint8_t> codes);

/// Returns the scales of a row's groups, [groups()].
std::vector<float> group_scales(const QuantizedView& matrix, std::size_t row);

/// Returns the zero points of a row's groups, [groups()]; of a codebook those of its values.
std::vector<std::uint8_t> group_zeros(const QuantizedView& matrix, std::size_t row);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_CODE_MATRIX_H_
