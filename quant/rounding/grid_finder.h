// Finds the grids of a matrix's rows.
#ifndef BALLAST_QUANT_ROUNDING_GRID_FINDER_H_
#define BALLAST_QUANT_ROUNDING_GRID_FINDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ballast/recipe.h"
#include "ballast/tensor.h"
#include "quant/rounding/grids/grid_search.h"
#include "quant/rounding/grids/group_search.h"
#include "quant/rounding/grids/lattice_search.h"
#include "quant/rounding/grids/quant_params.h"
#include "quant/rounding/scales/stored_scales.h"

namespace ballast::quant {

/// The columns of a matrix, as a GridFinder needs them.
struct GridColumns {
  std::span<const std::uint8_t> quantized_mask;  ///< [cols], 1: quantized

  /// Weights of the columns' squared errors (the mean square of the input channel, the Hessian's diagonal): [cols],
  /// finite, not negative. Empty means all ones; kRange ignores them.
  std::span<const float> importance{};
};

/// Finds grids for every format: any codebook, any offset, and scales on one level or two. The format's QuantRange
/// contains the codebook, GroupSearch finds scales and offsets, and this class fits them to the values that a format
/// with two levels stores. Owns scratch memory: each thread needs a finder of its own.
class GridFinder {
 public:
  /// scale_type: kF16 or kBF16, for ballast's and MLX's formats. Copies the contents of `columns`.
  GridFinder(const WeightFormat& format, DType scale_type, GridMethod method, const GridColumns& columns);

  /// Stores the grids of values[cols], one row, which must be finite; MLX's groups and GGUF's blocks must be whole. The
  /// result depends on the arguments only.
  void find(std::span<const float> values, RowGrids& grids);

  /// Stores the codes [cols] that are nearest to the values of the row for which `grids` were found last. The code of a
  /// column that is not quantized is its group's zero.
  void nearest_codes(const RowGrids& grids, std::span<std::uint8_t> codes) const;

 private:
  std::size_t group_size_;
  GroupSearch search_;
  std::unique_ptr<const StoredScales> stored_scales_;
  const LatticeSearch* lattice_;
  std::vector<std::uint8_t> quantized_mask_;
  std::vector<float> weights_;         ///< importance, 0 for columns that are not quantized
  std::vector<float> values_;          ///< of the current row, 0 for columns that are not quantized
  std::vector<WeightedGroup> groups_;  ///< of the current row
};

/// Returns how many columns of a row share a grid.
std::size_t grid_group_size(const WeightFormat& format, std::size_t cols);

/// Returns how many columns share a scale when inputs are quantized to INT8 before a matrix of this format; 0 means
/// all.
std::size_t activation_group_size(const WeightFormat& format);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_GRID_FINDER_H_
