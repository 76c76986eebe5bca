// The best grid of one group by itself.
#ifndef BALLAST_QUANT_ROUNDING_GRIDS_GROUP_SEARCH_H_
#define BALLAST_QUANT_ROUNDING_GRIDS_GROUP_SEARCH_H_

#include <span>

#include "ballast/recipe.h"
#include "ballast/tensor.h"
#include "quant/rounding/grids/block_search.h"
#include "quant/rounding/grids/grid_search.h"
#include "quant/rounding/grids/quant_params.h"

namespace ballast::quant {

/// Finds the grids of groups for any codebook and any offset: a zero point, a minimum, or neither.
class GroupSearch {
 public:
  /// scale_type: kF16 or kBF16, the type in which scales and minimums are stored.
  GroupSearch(const WeightFormat& format, DType scale_type, GridMethod method);

  /// Returns a grid whose scale and minimum have 16 bits, or are real numbers where scales are stored on two levels.
  /// The grids of integers always have 16 bits, because their zero point is chosen for the scale that is stored.
  QuantParams best_grid(const WeightedGroup& group) const;

  const QuantRange& range() const { return real_.range(); }

 private:
  QuantParams in_16_bits(QuantParams grid) const;

  /// Rounds the scale of a real grid to one of `few_scales_`: of those next to it, and next to the scale that spans all
  /// values, it takes the one with the smallest error.
  QuantParams grid_of_few(const WeightedGroup& group, const QuantParams& grid) const;

  /// Returns a real grid in 16 bits, or the plain range in 16 bits where that has a smaller error.
  QuantParams rounded_grid(const WeightedGroup& group, const QuantParams& grid) const;

  QuantParams integer_grid(const WeightedGroup& group) const;
  QuantParams symmetric_range_grid(const WeightedGroup& group) const;
  QuantParams zero_point_range_grid(const WeightedGroup& group) const;

  /// Returns, of the grids in 16 bits around the best real one, that with the smallest error.
  QuantParams searched_minimum_grid(const WeightedGroup& group) const;

  WeightFormat format_;
  DType scale_type_;
  GridMethod method_;
  bool two_levels_;
  std::span<const float> few_scales_;  ///< if not every scale in 16 bits can be stored
  BlockSearch real_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_GRIDS_GROUP_SEARCH_H_
