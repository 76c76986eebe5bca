// The grid of a group with the smallest weighted squared error.
#ifndef BALLAST_QUANT_ROUNDING_GRID_SEARCH_H_
#define BALLAST_QUANT_ROUNDING_GRID_SEARCH_H_

#include <span>

#include "ballast/recipe.h"
#include "quant/rounding/quant_params.h"

namespace ballast::quant {

/// Adding and taking away 1.5 * 2^23 rounds |x| < 2^22 to the nearest integer, ties to even. The compiler turns it into
/// two vector instructions on every target; std::nearbyint it does not.
inline constexpr float kRounder = 12582912.0F;

/// Below this, 1 / scale would overflow.
inline constexpr float kSmallestScale = 1e-30F;

/// Values of one group and the weights of their squared errors; the weight of a value that does not count is 0.
struct WeightedGroup {
  std::span<const float> values;
  std::span<const float> weights;
};

/// Sum over the group of weight * (value - nearest value of the grid)^2, in F32.
float weighted_error(const WeightedGroup& group, const QuantParams& grid, const QuantRange& range);

/// Starts from a grid over the group's range, tries smaller and slightly larger ranges (each end by itself where the
/// grid has a zero), and refines the best: for the codes that a grid gives, the best scale is a least squares fit (as
/// in llama.cpp's k-quants). The result's scale is not rounded to 16 bits. It is `start` when nothing is better. 8-bit
/// scales: no grid with a negative scale.
QuantParams search_grid(const WeightedGroup& group, const QuantParams& start, const WeightFormat& format);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_GRID_SEARCH_H_
