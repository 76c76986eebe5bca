// Rounding a matrix to integers.
#ifndef BALLAST_QUANT_ROUNDING_ROUNDING_H_
#define BALLAST_QUANT_ROUNDING_ROUNDING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ballast/quantized.h"
#include "ballast/recipe.h"
#include "formats/code_matrix.h"
#include "quant/rounding/grid_finder.h"
#include "quant/rounding/grids/quant_params.h"

namespace ballast::quant {

/// The 16-bit type in which values of this magnitude are stored: F16, or BF16 where F16 would overflow or lose digits.
DType half_type_for(float absmax);

struct RoundingOptions {
  GridMethod method = GridMethod::kRange;
  std::span<const float> importance{};  ///< [cols], see GridColumns
  std::optional<DType> half_type{};     ///< default: chosen by `absmax`
};

/// values [rows][cols] to the nearest codes of `format` (which quantizes); ties to even. The grids are found row by
/// row, without the columns listed in `outlier_columns`, which are kept in 16 bits. `absmax` is a bound on |values|
/// that picks the 16-bit types. Parallel over rows; the result does not depend on the number of threads.
formats::CodeMatrix round_to_nearest(std::span<const float> values, std::size_t rows, std::size_t cols,
                                     const WeightFormat& format, std::span<const std::int32_t> outlier_columns,
                                     float absmax, const RoundingOptions& options = {});

/// [cols]: 0 for outlier columns, 1 for the others.
std::vector<std::uint8_t> quantized_mask(std::size_t cols, std::span<const std::int32_t> outlier_columns);

/// Stores row `row`: its codes [cols], the grids of its groups, and the outlier columns of values [cols]. An outlier
/// column's code must be its group's zero. Rows may be stored from several threads.
void store_row(std::span<const float> values, std::span<const std::uint8_t> codes, const RowGrids& grids,
               std::size_t row, formats::CodeMatrix& matrix);

/// Returns the grids of one row's groups as stored; with a codebook, the grids of its values.
std::vector<QuantParams> grids_of_row(const QuantizedView& matrix, std::size_t row);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_ROUNDING_H_
