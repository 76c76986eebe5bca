// The error of a matrix's outputs from rounding it or its input.
#ifndef BALLAST_QUANT_SEARCH_OUTPUT_ERROR_H_
#define BALLAST_QUANT_SEARCH_OUTPUT_ERROR_H_

#include <cstddef>
#include <span>
#include <vector>

#include "quant/block/working_block.h"
#include "quant/quantize/weight_row_sample.h"
#include "quant/rounding/hessian.h"
#include "quant/rounding/input_peaks.h"

namespace ballast::quant {

/// Every n-th row of a matrix is rounded to compare formats, so that there are at least this many.
inline constexpr std::size_t kFormatSampleRows = 96;

/// Returns the squared error of each column, weighed by `importance`, when the sampled matrix is rounded to the best
/// grids of `format`, scaled up to all of its rows.
std::vector<double> column_errors(const WeightRowSample& sample, const WeightFormat& format,
                                  std::span<const float> importance);

/// Returns the squared error of a rounded matrix's outputs over the tokens of `moments`, to a few percent for matrices
/// with many rows; without moments (null), that of its weights.
double output_error(const WorkingLinear& linear, const Hessian* moments, std::span<const float> importance);

/// The cost of rounding a matrix's input to INT8 with a scale per token and group: squared error of the output, summed
/// over the tokens of `peaks`.
class ActivationErrors {
 public:
  ActivationErrors(const WorkingLinear& linear, const InputPeaks& peaks);

  double total(std::size_t group_size) const;

  /// Returns the part of the cost that each column saves if it is kept in 16 bits.
  std::vector<float> gains() const;

 private:
  /// Returns the cost of a group's columns per square of its largest value.
  double error_per_square(std::size_t begin, std::size_t end) const;

  const InputPeaks& peaks_;
  std::vector<double> weights_;  ///< squares of each column, summed up
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_SEARCH_OUTPUT_ERROR_H_
