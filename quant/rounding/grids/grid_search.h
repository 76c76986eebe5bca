// The grid of a group with the smallest weighted squared error.
#ifndef BALLAST_QUANT_ROUNDING_GRIDS_GRID_SEARCH_H_
#define BALLAST_QUANT_ROUNDING_GRIDS_GRID_SEARCH_H_

#include <array>
#include <cstddef>
#include <span>

#include "ballast/recipe.h"
#include "quant/rounding/grids/quant_params.h"

namespace ballast::quant {

/// Adding and taking away 1.5 * 2^23 rounds |x| < 2^22 to the nearest integer, ties to even. The compiler turns it into
/// two vector instructions on every target; std::nearbyint it does not.
inline constexpr float kRounder = 12582912.0F;

/// Below this, 1 / scale would overflow.
inline constexpr float kSmallestScale = 1e-30F;

/// How grids are found.
enum class GridMethod {
  kRange,   ///< from a group's smallest value to its largest
  kSearch,  ///< of ranges around that, refined by least squares, the one with the smallest squared error
};

/// Values of one group and the weights of their squared errors. A value that does not count is 0 and weighs 0.
struct WeightedGroup {
  std::span<const float> values;
  std::span<const float> weights;
};

/// Returns the smallest value, or 0 if none is negative.
float lowest_value(const WeightedGroup& group);

/// Steps from a grid's zero point to its values that are nearest.
class GridSteps {
 public:
  static constexpr std::size_t kMostValues = 128;

  GridSteps(const QuantParams& grid, const QuantRange& range);

  /// steps[values], of at most kMostValues.
  void count(std::span<const float> values, float* steps) const;

 private:
  float inverse_;
  float minimum_;
  int zero_;
  float low_;
  float high_;
  const NearestCodes* nearest_;
};

/// Sum over the group of weight * (value - nearest value of the grid)^2, in F32. The grid's scale may be 0.
float weighted_error(const WeightedGroup& group, const QuantParams& grid, const QuantRange& range);

/// The grid with the smallest error so far. Candidates are compared together, which is much faster than one by one; of
/// equal ones the first wins. Its arguments must outlive it.
class BestGrid {
 public:
  BestGrid(const WeightedGroup& group, const QuantParams& start, const QuantRange& range)
      : group_(group), range_(range), grid_(start), error_(weighted_error(group, start, range)) {}

  /// Adds a candidate; one whose scale is too small to be inverted is ignored.
  void add(const QuantParams& grid);

  /// Compares the candidates since the last call. Returns whether one is better than the previous best.
  bool settle();

  const QuantParams& grid() const { return grid_; }

 private:
  static constexpr std::size_t kMost = 64;

  const WeightedGroup& group_;
  const QuantRange& range_;
  QuantParams grid_;
  float error_;
  bool improved_ = false;  ///< by candidates that were compared when the buffer was full
  std::array<QuantParams, kMost> candidates_;
  std::size_t count_ = 0;
};

/// Starts from a grid over the group's range, tries smaller and slightly larger ranges (each end separately if the grid
/// has a zero), and refines the best: for given codes, the best scale is a least squares fit (as in llama.cpp's
/// k-quants). The result's scale is not rounded to 16 bits. It is `start` if nothing is better. With 8-bit scales no
/// grid has a negative scale.
QuantParams search_grid(const WeightedGroup& group, const QuantParams& start, const WeightFormat& format);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_GRIDS_GRID_SEARCH_H_
