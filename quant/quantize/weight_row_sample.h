// A sample of a matrix's rows, large enough to compare ways of rounding it.
#ifndef BALLAST_QUANT_QUANTIZE_WEIGHT_ROW_SAMPLE_H_
#define BALLAST_QUANT_QUANTIZE_WEIGHT_ROW_SAMPLE_H_

#include <cstddef>
#include <span>
#include <vector>

#include "ballast/recipe.h"
#include "quant/block/working_block.h"

namespace ballast::quant {

/// Copies of some rows of a matrix, with the parts of its WorkingLinear that rounding depends on.
struct WeightRowSample {
  /// Copies the rows of `linear` with these indices.
  WeightRowSample(const WorkingLinear& linear, std::span<const std::size_t> indices);

  std::size_t rows = 0;      ///< in the sample
  std::size_t all_rows = 0;  ///< of the matrix
  std::size_t cols = 0;
  std::vector<float> values;  ///< [rows][cols]
  WeightFormat format;
  ActivationType activations = ActivationType::kInt16;
  DType scale_type = DType::kF16;
  float absmax = 0;  ///< of the matrix

  double share() const { return static_cast<double>(rows) / static_cast<double>(all_rows); }
};

/// Returns the indices of min(most, rows) rows, spread evenly over all.
std::vector<std::size_t> spread_rows(std::size_t rows, std::size_t most);

/// Returns the indices of every n-th row, n = max(1, rows / least): of a matrix with `least` rows or more, at least
/// that many and fewer than twice as many.
std::vector<std::size_t> every_nth_row(std::size_t rows, std::size_t least);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_QUANTIZE_WEIGHT_ROW_SAMPLE_H_
