// The grid of a group with the smallest weighted squared error, its scale and minimum being real numbers: of a GGUF's
// blocks, and of MLX's groups.
#ifndef BALLAST_QUANT_ROUNDING_GRIDS_BLOCK_SEARCH_H_
#define BALLAST_QUANT_ROUNDING_GRIDS_BLOCK_SEARCH_H_

#include <cstddef>
#include <span>

#include "quant/rounding/grids/grid_search.h"
#include "quant/rounding/grids/quant_params.h"

namespace ballast::quant {

/// Sums over weighted values of a group that give the scale and the minimum of least error for the codes that they
/// have.
struct LeastSquares {
  double codes_squared = 0;     ///< sum of weight * x^2, where the value is x * scale - m * minimum
  double minimums_squared = 0;  ///< sum of weight * m^2
  double products = 0;          ///< sum of weight * x * m
  double codes_values = 0;      ///< sum of weight * x * value
  double minimums_values = 0;   ///< sum of weight * m * value

  /// Adds a group whose code steps are multiplied by `scale_factor` and whose minimum by `minimum_factor`.
  void add(const WeightedGroup& group, const QuantParams& grid, const QuantRange& range, double scale_factor,
           double minimum_factor);

  /// Return the grids with the smallest error, with both parameters free and without a minimum; scale 0: the codes do
  /// not determine it.
  QuantParams with_minimum() const;
  double scale_alone() const;

  /// Returns the minimum with the smallest error for this scale; 0: the weights do not determine it.
  float minimum_beside(double scale) const;
};

/// What may be taken off the values of a group.
enum class Minimums { kNone, kNotNegative, kAny };

/// Searches grids for groups of at most 128 columns, whose codes are those of `range`.
class BlockSearch {
 public:
  BlockSearch(const QuantRange& range, Minimums minimums);

  /// Returns the grid from a group's smallest value to its largest.
  QuantParams range_grid(const WeightedGroup& group) const;

  /// Returns the best of ranges around that, varying each end separately, refined by least squares.
  QuantParams searched_grid(const WeightedGroup& group) const;

  const QuantRange& range() const { return range_; }

 private:
  QuantParams refined(const WeightedGroup& group, BestGrid& best) const;

  /// Fits a grid with a minimum if allowed; otherwise only the scale.
  QuantParams fitted(const WeightedGroup& group, const QuantParams& grid) const;

  QuantRange range_;
  Minimums minimums_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_GRIDS_BLOCK_SEARCH_H_
