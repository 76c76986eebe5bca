// Second moments of linears' inputs over calibration's tokens: the Hessian of the linears' squared output error.
#ifndef BALLAST_QUANT_ROUNDING_HESSIAN_H_
#define BALLAST_QUANT_ROUNDING_HESSIAN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ballast/ranks.h"
#include "jobs/sharded_sum.h"

namespace ballast::quant {

/// The sum of x x^T over tokens, with any weights.
struct Hessian {
  std::size_t cols = 0;
  std::uint64_t rows = 0;     ///< tokens; of a mixture as many as make it as certain
  std::vector<float> values;  ///< [cols][cols], symmetric
};

/// Forms them, one batch after the other, the samples' shards on this rank in ascending order (jobs/sharded_sum.h).
class HessianSum {
 public:
  HessianSum(std::size_t cols, jobs::SumOrder order) : cols_(cols), sum_(cols * cols, order) {}

  /// Adds inputs [rows][cols] of the present shard, each multiplied with its weight; none: with 1.
  void add(const float* inputs, std::size_t rows, std::span<const float> weights = {});
  void end_shard(std::size_t index) { sum_.end_shard(index); }

  /// All ranks call it once and get the same bytes.
  Hessian finish(Ranks& ranks);

 private:
  std::size_t cols_;
  std::uint64_t rows_ = 0;
  jobs::ShardedSum<float> sum_;
  std::vector<float> transposed_;  ///< scratch, [cols][rows of a batch]
};

/// What rounding a matrix one column after the other needs to know of its input: H = sum x x^T, damped, as
/// H^-1 = R^T R with R upper triangular, in the order in which columns are rounded.
struct InverseCholesky {
  std::size_t cols = 0;
  std::vector<std::int32_t> order;  ///< column of each rank: by falling energy, those that keep 16 bits last
  std::size_t cell = 1;             ///< so many columns in a row, from a multiple of it on, have ranks in a row
  std::vector<float> upper;         ///< R [rank][rank]; below the diagonal is scratch

  /// 1 / R_jj^2 by column: the cost of a unit of squared rounding error in it after the later columns have corrected it
  /// as well as possible.
  std::vector<float> importance;
};

/// The least share of the diagonal's mean that is added to the diagonal.
inline constexpr double kLeastDamping = 0.01;

/// Returns the damping for these moments: as if every column had one more token in which all channels are equal and
/// independent. The moments of few tokens over many columns are half noise, and columns that corrected others by them
/// would be wrong for the next text.
double damping_for(const Hessian& moments);

/// Adds `damping` times the mean of the diagonal over the rounded columns: `outlier_columns` keep 16 bits, and do not
/// show how certain the others are. Columns that are rounded together, `cell` of them, are ordered by their mean
/// energy; `cell` must divide all columns, and there must be no outlier columns if it is not 1.
InverseCholesky factorize(const Hessian& moments, std::span<const std::int32_t> outlier_columns, double damping,
                          std::size_t cell = 1);

/// InverseCholesky::importance alone, without outliers; takes half the time.
std::vector<float> column_importance(const Hessian& moments, double damping);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_HESSIAN_H_
