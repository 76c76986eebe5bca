// Grids of ballast's non-linear formats: a table's values times a scale of either sign for each group.
#ifndef BALLAST_QUANT_ROUNDING_GRIDS_NONLINEAR_GRIDS_H_
#define BALLAST_QUANT_ROUNDING_GRIDS_NONLINEAR_GRIDS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "ballast/recipe.h"
#include "ballast/tensor.h"
#include "quant/rounding/blocks/block_search.h"
#include "quant/rounding/grids/grid_finder.h"
#include "quant/rounding/grids/shared_scales.h"

namespace ballast::quant {

class NonlinearGridFinder : public GridFinder {
 public:
  NonlinearGridFinder(const WeightFormat& format, DType scale_type, GridMethod method, const GridColumns& columns);

  void find(std::span<const float> values, RowGrids& grids) override;

 private:
  WeightedGroup group(std::size_t index) const;
  QuantParams found_grid(const WeightedGroup& group) const;
  /// Returns the grid with its scale in 16 bits; not worse than the plain range.
  QuantParams as_stored(const WeightedGroup& group, QuantParams grid) const;
  void share_row_scale(RowGrids& grids);
  /// Returns the code of the best scale near the wanted one, with the same sign.
  std::int8_t scale_code(const WeightedGroup& group, const SharedScales& scales, float wanted) const;
  QuantParams shared_grid(const SharedScales& scales, std::int8_t code) const;

  WeightFormat format_;
  BlockSearch search_;
  DType scale_type_;
  GridMethod method_;
  std::vector<std::uint8_t> quantized_mask_;
  std::vector<float> weights_;  ///< importance, 0 where a column does not count
  std::vector<float> values_;   ///< of the current row, 0 for columns that do not count
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_GRIDS_NONLINEAR_GRIDS_H_
