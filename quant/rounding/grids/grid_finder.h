// Finds the grids of a matrix's rows.
#ifndef BALLAST_QUANT_ROUNDING_GRIDS_GRID_FINDER_H_
#define BALLAST_QUANT_ROUNDING_GRIDS_GRID_FINDER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ballast/recipe.h"
#include "ballast/tensor.h"
#include "quant/rounding/blocks/block_scales.h"
#include "quant/rounding/grids/grid_search.h"
#include "quant/rounding/grids/group_search.h"
#include "quant/rounding/grids/shared_scales.h"
#include "quant/rounding/quant_params.h"

namespace ballast::quant {

/// The method of finding grids.
enum class GridMethod {
  kRange,   ///< from a group's smallest value to its largest
  kSearch,  ///< of ranges around that, refined by least squares, the one with the smallest squared error
};

/// Owns scratch memory: each thread needs its own finder.
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

/// Finds grids for every format: any codebook, any offset, and scales on one level or two. A codebook is data of the
/// format's QuantRange, GroupSearch finds scales and offsets, and this class fits them to what is stored on two levels.
/// Owns scratch: each thread needs a finder of its own.
class GridFinder {
 public:
  /// scale_type: kF16 or kBF16, of ballast's and MLX's formats. Copies what `columns` shows.
  GridFinder(const WeightFormat& format, DType scale_type, GridMethod method, const GridColumns& columns);

  /// values[cols] of one row, finite; MLX's groups and GGUF's blocks must be whole. The result depends on the arguments
  /// alone.
  void find(std::span<const float> values, RowGrids& grids);

 private:
  /// Replaces the scales of groups by products of 8-bit codes and a scale of the row.
  void share_row_scale(RowGrids& grids) const;

  /// Returns the best grid whose scale has an 8-bit code near the wanted scale, whose sign stays.
  QuantParams fit_to_shared_scales(const WeightedGroup& group, const SharedScales& scales, const QuantParams& wanted,
                                   std::uint8_t& scale_code) const;

  WeightFormat format_;
  DType scale_type_;
  GridMethod method_;
  std::size_t group_size_;
  GroupSearch search_;
  std::optional<BlockScales> blocks_;
  std::vector<std::uint8_t> quantized_mask_;
  std::vector<float> weights_;         ///< importance, 0 where a column does not count
  std::vector<float> values_;          ///< of the present row, 0 where a column does not count
  std::vector<WeightedGroup> groups_;  ///< of the present row
};

/// Columns of a row that share a grid.
std::size_t grid_group_size(const WeightFormat& format, std::size_t cols);

/// Returns the columns that share a scale when the input of a matrix in this format becomes INT8; 0: all.
std::size_t activation_group_size(const WeightFormat& format);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_GRIDS_GRID_FINDER_H_
