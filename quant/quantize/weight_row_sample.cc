#include "quant/quantize/weight_row_sample.h"

#include <algorithm>

namespace ballast::quant {

WeightRowSample::WeightRowSample(const WorkingLinear& linear, std::span<const std::size_t> indices)
    : rows(indices.size()),
      all_rows(linear.rows),
      cols(linear.cols),
      format(linear.format),
      activations(linear.activations),
      scale_type(linear.half_type()),
      absmax(linear.absmax) {
  values.reserve(rows * cols);
  const LinearValues all(linear);
  for (const std::size_t index : indices) {
    const std::span<const float> row = all.all().subspan(index * cols, cols);
    values.insert(values.end(), row.begin(), row.end());
  }
}

std::vector<std::size_t> spread_rows(std::size_t rows, std::size_t most) {
  const std::size_t count = std::min(rows, most);
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < count; ++i) indices.push_back(i * rows / count);
  return indices;
}

std::vector<std::size_t> every_nth_row(std::size_t rows, std::size_t least) {
  const std::size_t step = std::max<std::size_t>(1, rows / least);
  std::vector<std::size_t> indices;
  for (std::size_t row = 0; row < rows; row += step) indices.push_back(row);
  return indices;
}

}  // namespace ballast::quant
