// Finds the grids of a matrix's rows.
#ifndef BALLAST_QUANT_ROUNDING_GRIDS_GRID_FINDER_H_
#define BALLAST_QUANT_ROUNDING_GRIDS_GRID_FINDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "ballast/recipe.h"
#include "ballast/tensor.h"
#include "quant/rounding/quant_params.h"

namespace ballast::quant {

/// How grids are found.
enum class GridMethod {
  kRange,   ///< from a group's smallest value to its largest
  kSearch,  ///< of ranges around that, refined by least squares, the one with the smallest squared error
};

/// Owns scratch: each thread needs one of its own.
class GridFinder {
 public:
  virtual ~GridFinder() = default;

  /// values[cols] of one row, finite. The result depends on the arguments alone.
  virtual void find(std::span<const float> values, RowGrids& grids) = 0;
};

/// What a finder has to know of the columns.
struct GridColumns {
  std::span<const std::uint8_t> quantized_mask;  ///< [cols], 1: it counts

  /// [cols], weighs the squared error of each column (the mean square of the input channel, the Hessian's diagonal):
  /// finite, not negative; empty means all ones; kRange ignores it.
  std::span<const float> importance{};
};

/// scale_type: kF16 or kBF16, of ballast's own formats. The finder keeps copies.
std::unique_ptr<GridFinder> make_grid_finder(const WeightFormat& format, DType scale_type, GridMethod method,
                                             const GridColumns& columns);

/// Columns of a row that share a grid.
std::size_t grid_group_size(const WeightFormat& format, std::size_t cols);

/// Columns whose inputs get one scale when they become INT8 in front of a matrix of this format; 0: all.
std::size_t activation_group_size(const WeightFormat& format);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_GRIDS_GRID_FINDER_H_
