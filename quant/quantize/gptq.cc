#include "quant/quantize/gptq.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "quant/rounding/float_product.h"
#include "quant/rounding/rounding.h"

namespace ballast::quant {

namespace {

// Number of columns that are rounded before their errors are propagated to the rest of the matrix.
constexpr std::size_t kBlockColumns = 64;

// Number of rows that are copied at once: a vocabulary has too many for one copy.
constexpr std::size_t kRowsAtOnce = 32768;

/// Rounds some rows of a matrix; each is rounded separately.
class Gptq {
 public:
  /// Uses `rows` of `values` from row `first` on; `drift` may be null.
  Gptq(const WorkingLinear& linear, const InverseCholesky& factor, const Drift* drift, const LinearValues& values,
       std::size_t first, std::size_t rows)
      : linear_(linear),
        factor_(factor),
        first_(first),
        rows_(rows),
        cols_(linear.cols),
        values_(rows_ * cols_),
        group_size_(grid_group_size(linear.format, cols_)),
        range_(linear.format),
        quantized_mask_(quantized_mask(cols_, linear.outlier_columns)) {
    const float* first_row = values.data() + first_ * cols_;
#pragma omp parallel for
    for (std::size_t r = 0; r < rows_; ++r) {
      for (std::size_t j = 0; j < cols_; ++j) values_[r * cols_ + j] = first_row[r * cols_ + column(j)];
    }
    if (drift != nullptr) correct_drift(*drift, factor_, first_, values_);
  }

  void run(formats::CodeMatrix& result) {
    find_grids(linear_.half_type());
    codes_.resize(rows_ * cols_);
    errors_.resize(rows_ * kBlockColumns);
    for (std::size_t begin = 0; begin < cols_; begin += kBlockColumns) {
      const std::size_t end = std::min(cols_, begin + kBlockColumns);
#pragma omp parallel for schedule(static)
      for (std::size_t r = 0; r < rows_; ++r) round_block(r, begin, end);
      propagate_errors(begin, end);
    }
#pragma omp parallel
    {
      std::vector<float> values(cols_);
#pragma omp for
      for (std::size_t r = 0; r < rows_; ++r) {
        in_place(r, values);
        store_row(values, std::span(codes_).subspan(r * cols_, cols_), grids_[r], first_ + r, result);
      }
    }
  }

 private:
  std::size_t column(std::size_t rank) const { return static_cast<std::size_t>(factor_.order[rank]); }

  /// Copies a row's values to their original columns.
  void in_place(std::size_t r, std::span<float> values) const {
    for (std::size_t j = 0; j < cols_; ++j) values[column(j)] = values_[r * cols_ + j];
  }

  void find_grids(DType scale_type) {
    grids_.resize(rows_);
#pragma omp parallel
    {
      GridFinder finder(linear_.format, scale_type, GridMethod::kSearch,
                        {.quantized_mask = quantized_mask_, .importance = factor_.importance});
      std::vector<float> values(cols_);
#pragma omp for
      for (std::size_t r = 0; r < rows_; ++r) {
        in_place(r, values);
        finder.find(values, grids_[r]);
      }
    }
  }

  void round_block(std::size_t r, std::size_t begin, std::size_t end) {
    float* row = values_.data() + r * cols_;
    for (std::size_t j = begin; j < end; ++j) {
      const std::size_t c = column(j);
      const float* upper = factor_.upper.data() + j * cols_;
      const QuantParams& grid = grids_[r].groups[c / group_size_];
      // An outlier column loses almost nothing in 16 bits.
      const int code = quantized_mask_[c] != 0 ? code_of(row[j], grid, range_) : grid.zero_point;
      const float rounded = quantized_mask_[c] != 0 ? value_of(code, grid) : row[j];
      codes_[r * cols_ + c] = static_cast<std::uint8_t>(code);
      const float scaled = (row[j] - rounded) / upper[j];
      errors_[r * kBlockColumns + (j - begin)] = -scaled;
      for (std::size_t k = j + 1; k < end; ++k) row[k] -= scaled * upper[k];
    }
  }

  /// Adds the errors of the columns [begin, end) to the columns after them.
  void propagate_errors(std::size_t begin, std::size_t end) {
    if (end == cols_) return;
    const std::size_t rest = cols_ - end;
    weights_.resize(rest * kBlockColumns);
#pragma omp parallel for
    for (std::size_t k = 0; k < rest; ++k) {
      for (std::size_t j = begin; j < end; ++j) {
        weights_[k * kBlockColumns + (j - begin)] = factor_.upper[j * cols_ + end + k];
      }
    }
    multiply_transposed(errors_, weights_, kBlockColumns,
                        {.dst = values_.data() + end, .stride = cols_, .accumulate = true});
  }

  const WorkingLinear& linear_;
  const InverseCholesky& factor_;
  std::size_t first_;
  std::size_t rows_;
  std::size_t cols_;
  std::vector<float> values_;  ///< [rows][rank]
  std::size_t group_size_;
  QuantRange range_;
  std::vector<std::uint8_t> quantized_mask_;
  std::vector<RowGrids> grids_;  ///< [rows]
  std::vector<std::uint8_t> codes_;
  std::vector<float> errors_;   ///< [rows][kBlockColumns], scaled and negated
  std::vector<float> weights_;  ///< [rest][kBlockColumns]
};

}  // namespace

formats::CodeMatrix round_gptq(const WorkingLinear& linear, const InverseCholesky& factor, const Drift* drift,
                               const std::function<void()>& check_cancelled) {
  formats::CodeMatrix result(linear.rows, linear.cols, linear.format, linear.outlier_columns, linear.half_type());
  std::optional<LinearValues> values(linear);
  for (std::size_t first = 0; first < linear.rows; first += kRowsAtOnce) {
    if (check_cancelled) check_cancelled();
    const std::size_t rows = std::min(kRowsAtOnce, linear.rows - first);
    Gptq gptq(linear, factor, drift, *values, first, rows);
    if (first + rows == linear.rows) values.reset();  // they were copied
    gptq.run(result);
  }
  return result;
}

}  // namespace ballast::quant
