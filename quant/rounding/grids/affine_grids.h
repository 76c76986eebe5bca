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

/// Finds grids of formats with fewer than 8 bits. At 8 bits a free offset saves almost nothing, so these use the grids
/// of symmetric integers, which kernels multiply faster.
class AffineGridFinder : public GridFinder {
 public:
  AffineGridFinder(const WeightFormat& format, DType scale_type, GridMethod method, const GridColumns& columns);

  /// The values are whole groups.
  void find(std::span<const float> values, RowGrids& grids) override;

 private:
  /// Returns a grid in 16 bits that spans a group's range as far as its type allows.
  QuantParams range_grid(const WeightedGroup& group) const;

  /// Returns the grid with the smallest error among grids in 16 bits around the best real one.
  QuantParams searched_grid(const WeightedGroup& group) const;

  BlockSearch search_;
  std::size_t group_size_;
  DType scale_type_;
  GridMethod method_;
  std::vector<float> weights_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_GRIDS_AFFINE_GRIDS_H_
