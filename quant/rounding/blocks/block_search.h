// The grid of a group with the smallest weighted squared error, its scale and minimum being real numbers: of a GGUF's
// blocks, and of MLX's groups.
#ifndef BALLAST_QUANT_ROUNDING_BLOCKS_BLOCK_SEARCH_H_
#define BALLAST_QUANT_ROUNDING_BLOCKS_BLOCK_SEARCH_H_

#include <cstddef>
#include <span>

#include "quant/rounding/grids/grid_search.h"
#include "quant/rounding/quant_params.h"

namespace ballast::quant {

/// Sums over weighted values of a group that give the scale and the minimum of least error for the codes that they
/// have.
struct LeastSquares {
  double codes_squared = 0;     ///< of weight * x^2, where the value is x * scale - m * minimum
  double minimums_squared = 0;  ///< of weight * m^2
  double products = 0;          ///< of weight * x * m
  double codes_values = 0;      ///< of weight * x * value
  double minimums_values = 0;   ///< of weight * m * value

  /// Adds a group whose codes' steps count `scale_factor` times and whose minimum `minimum_factor` times.
  void add(const WeightedGroup& group, const QuantParams& grid, const QuantRange& range, double scale_factor,
           double minimum_factor);

  /// Of least error with both free, and with no minimum; scale 0: the codes do not say.
  QuantParams with_minimum() const;
  double scale_alone() const;

  /// The minimum of least error beside this scale; 0: the weights do not say.
  float minimum_beside(double scale) const;
};

/// What may be taken off the values of a group.
enum class Minimums { kNone, kNotNegative, kAny };

/// Searches the grids of groups of at most 128 columns, whose codes are those of `range`.
class BlockSearch {
 public:
  BlockSearch(const QuantRange& range, Minimums minimums);

  /// From a group's smallest value to its largest.
  QuantParams range_grid(const WeightedGroup& group) const;

  /// The best of ranges around that, each end by itself, refined by least squares.
  QuantParams searched_grid(const WeightedGroup& group) const;

  const QuantRange& range() const { return range_; }

 private:
  QuantParams refined(const WeightedGroup& group, BestGrid& best) const;

  /// With a minimum that may be; the scale alone is fitted where that is another.
  QuantParams fitted(const WeightedGroup& group, const QuantParams& grid) const;

  QuantRange range_;
  Minimums minimums_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_BLOCKS_BLOCK_SEARCH_H_
