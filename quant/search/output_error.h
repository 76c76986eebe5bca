// What rounding a matrix, or what it reads, does to its outputs.
#ifndef BALLAST_QUANT_SEARCH_OUTPUT_ERROR_H_
#define BALLAST_QUANT_SEARCH_OUTPUT_ERROR_H_

#include <cstddef>
#include <span>
#include <vector>

#include "quant/rounding/hessian.h"
#include "quant/rounding/weight_row_sample.h"
#include "quant/search/input_peaks.h"
#include "quant/working_block.h"

namespace ballast::quant {

/// Every n-th row of a matrix is rounded to compare formats, so that there are at least this many.
inline constexpr std::size_t kFormatSampleRows = 96;

/// Returns the squared error of each column, weighed by `importance`, when the sampled matrix is rounded to the best
/// grids of `format`, scaled up to all of its rows.
std::vector<double> column_errors(const WeightRowSample& sample, const WeightFormat& format,
                                  std::span<const float> importance);

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
