// Grids of MLX's groups: a scale and an offset, both in 16 bits.
#ifndef BALLAST_QUANT_ROUNDING_GRIDS_AFFINE_GRIDS_H_
#define BALLAST_QUANT_ROUNDING_GRIDS_AFFINE_GRIDS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "ballast/recipe.h"
#include "ballast/tensor.h"
#include "quant/rounding/blocks/block_search.h"
#include "quant/rounding/grids/grid_finder.h"

namespace ballast::quant {

/// Of formats with fewer than 8 bits. At 8 bits an offset of any size saves next to nothing: these have the grids of
/// symmetric integers, which kernels multiply faster.
class AffineGridFinder : public GridFinder {
 public:
  AffineGridFinder(const WeightFormat& format, DType scale_type, GridMethod method, const GridColumns& columns);

  /// values: whole groups.
  void find(std::span<const float> values, RowGrids& grids) override;

 private:
  /// A grid in 16 bits that spans a group's range as far as its type allows.
  QuantParams range_grid(const WeightedGroup& group) const;

  /// Of grids in 16 bits around the best with real numbers, the one of least error.
  QuantParams searched_grid(const WeightedGroup& group) const;

  BlockSearch search_;
  std::size_t group_size_;
  DType scale_type_;
  GridMethod method_;
  std::vector<float> weights_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_GRIDS_AFFINE_GRIDS_H_
