// What rounding a matrix, or what it reads, does to its outputs.
#ifndef BALLAST_QUANT_SEARCH_OUTPUT_ERROR_H_
#define BALLAST_QUANT_SEARCH_OUTPUT_ERROR_H_

#include <cstddef>
#include <span>
#include <vector>

#include "quant/rounding/hessian.h"
#include "quant/search/input_peaks.h"
#include "quant/working_block.h"

namespace ballast::quant {

/// Rows of a matrix on which formats are compared: an even part of them.
inline constexpr std::size_t kComparedRows = 96;

/// These rows, which are read once for all formats.
class ComparedRows {
 public:
  explicit ComparedRows(const WorkingLinear& linear);

  /// Squared error of each column, weighed by `importance`, when the matrix is rounded to its best grids, scaled up to
  /// all of its rows.
  std::vector<double> column_errors(const WeightFormat& format, std::span<const float> importance) const;

 private:
  std::size_t all_rows_;
  std::size_t cols_;
  DType scale_type_;
  std::vector<float> values_;  ///< [compared rows][cols]
};

/// Squared error of a rounded matrix's outputs over the tokens behind `moments`, to a few percent where it has many
/// rows; without these (null), of its weights.
double output_error(const WorkingLinear& linear, const Hessian* moments, std::span<const float> importance);

/// What rounding a matrix's input to INT8 costs, with a scale per token and group: squared error of the output, summed
/// over the tokens behind `peaks`.
class ActivationErrors {
 public:
  ActivationErrors(const WorkingLinear& linear, const InputPeaks& peaks);

  double total(std::size_t group_size) const;

  /// What of it each column takes along when it keeps 16 bits.
  std::vector<float> gains() const;

 private:
  /// Of the columns of a group, per square of its largest value.
  double error_per_square(std::size_t begin, std::size_t end) const;

  const InputPeaks& peaks_;
  std::vector<double> weights_;  ///< squares of each column, summed up
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_SEARCH_OUTPUT_ERROR_H_
