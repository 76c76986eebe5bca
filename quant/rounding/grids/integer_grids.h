// Grids of ballast's own formats: a scale and, where they are asymmetric, a zero point for each group.
#ifndef BALLAST_QUANT_ROUNDING_GRIDS_INTEGER_GRIDS_H_
#define BALLAST_QUANT_ROUNDING_GRIDS_INTEGER_GRIDS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ballast/recipe.h"
#include "ballast/tensor.h"
#include "quant/rounding/grids/grid_finder.h"
#include "quant/rounding/grids/shared_scales.h"

namespace ballast::quant {

/// [cols]: importance, 0 where a column does not count.
std::vector<float> column_weights(const GridColumns& columns);

class IntegerGridFinder : public GridFinder {
 public:
  IntegerGridFinder(const WeightFormat& format, DType scale_type, GridMethod method, const GridColumns& columns);

  void find(std::span<const float> values, RowGrids& grids) override;

 private:
  struct Group {
    std::span<const float> values;
    std::span<const std::uint8_t> quantized_mask;
    std::span<const float> weights;
  };

  static float lowest_value(const Group& group);  ///< or 0
  Group group(std::span<const float> values, std::size_t index) const;
  QuantParams range_grid(const Group& group) const;
  QuantParams symmetric_range_grid(const Group& group) const;
  QuantParams asymmetric_range_grid(const Group& group) const;
  QuantParams searched_grid(const Group& group) const;
  void share_row_scale(std::span<const float> values, RowGrids& grids);
  QuantParams fit_to_shared_scales(const Group& group, const SharedScales& scales, const QuantParams& wanted,
                                   std::uint8_t& scale_code) const;

  WeightFormat format_;
  QuantRange range_;
  DType scale_type_;
  GridMethod method_;
  std::size_t group_size_;
  std::vector<std::uint8_t> quantized_mask_;
  std::vector<float> weights_;  ///< importance, 0 where a column does not count
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_GRIDS_INTEGER_GRIDS_H_
