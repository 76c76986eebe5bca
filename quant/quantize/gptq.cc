#include "quant/quantize/gptq.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <optional>
#include <vector>

#include "quant/rounding/float_product.h"
#include "quant/rounding/grids/lattice_search.h"
#include "quant/rounding/rounding.h"

namespace ballast::quant {

namespace {

// Number of columns that are rounded before their errors are propagated to the rest of the matrix.
constexpr std::size_t kBlockColumns = 64;

// Number of rows that are copied at once: a vocabulary has too many for one copy.
constexpr std::size_t kRowsAtOnce = 32768;

/// Returns the cost of each cell's errors if all later columns compensate for them as well as they can: with R's block
/// B of the cell, |e B^-1|^2.
std::vector<CellMetric> cell_metrics(const InverseCholesky& factor) {
  assert(factor.cell == kCell);
  std::vector<CellMetric> metrics(factor.cols / kCell);
  for (std::size_t cell = 0; cell < metrics.size(); ++cell) {
    const float* block = factor.upper.data() + cell * kCell * (factor.cols + 1);
    // Row i of the inverse, which is upper triangular.
    std::array<double, kCell * kCell> inverse{};
    for (std::size_t i = 0; i < kCell; ++i) {
      for (std::size_t k = i; k < kCell; ++k) {
        double sum = i == k ? 1 : 0;
        for (std::size_t m = i; m < k; ++m) sum -= inverse[i * kCell + m] * double{block[m * factor.cols + k]};
        inverse[i * kCell + k] = sum / double{block[k * (factor.cols + 1)]};
      }
    }
    for (std::size_t i = 0; i < kCell; ++i) {
      for (std::size_t k = 0; k < kCell; ++k) {
        double sum = 0;
        for (std::size_t m = std::max(i, k); m < kCell; ++m) sum += inverse[i * kCell + m] * inverse[k * kCell + m];
        metrics[cell][i * kCell + k] = static_cast<float>(sum);
      }
    }
  }
  return metrics;
}

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
        lattice_(lattice_search_of(linear.format)),
        metrics_(lattice_ == nullptr ? std::vector<CellMetric>() : cell_metrics(factor)),
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
      if (lattice_ != nullptr && j % kCell == 0) round_cell(r, j);
      const float* upper = factor_.upper.data() + j * cols_;
      const QuantParams& grid = grids_[r].groups[c / group_size_];
      std::uint8_t& code = codes_[r * cols_ + c];
      if (lattice_ == nullptr) {
        code = static_cast<std::uint8_t>(quantized_mask_[c] != 0 ? code_of(row[j], grid, range_) : grid.zero_point);
      }
      // An outlier column loses almost nothing in 16 bits.
      const float rounded = quantized_mask_[c] != 0 ? value_of(code, grid) : row[j];
      const float scaled = (row[j] - rounded) / upper[j];
      errors_[r * kBlockColumns + (j - begin)] = -scaled;
      for (std::size_t k = j + 1; k < end; ++k) row[k] -= scaled * upper[k];
    }
  }

  /// Chooses the codes of the cell that begins at rank j.
  void round_cell(std::size_t r, std::size_t j) {
    const std::size_t c = column(j);
    const QuantParams& grid = grids_[r].groups[c / group_size_];
    // With a scale of 0 any point will do.
    const float inverse = grid.scale > 0 ? 1 / grid.scale : 0;
    std::array<float, kCell> values;
    for (std::size_t i = 0; i < kCell; ++i) values[i] = values_[r * cols_ + j + i] * inverse;
    LatticeSearch::Steps steps;
    lattice_->nearest_in_metric(values.data(), metrics_[j / kCell], steps);
    for (std::size_t i = 0; i < kCell; ++i) {
      codes_[r * cols_ + c + i] = static_cast<std::uint8_t>(static_cast<int>(steps[i]) + grid.zero_point);
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
  const LatticeSearch* lattice_;     ///< null: columns are rounded one after the other
  std::vector<CellMetric> metrics_;  ///< of the lattice's cells, in the order of ranks
  std::vector<std::uint8_t> quantized_mask_;
  std::vector<RowGrids> grids_;  ///< [rows]
  std::vector<std::uint8_t> codes_;
  std::vector<float> errors_;   ///< [rows][kBlockColumns], scaled and negated
  std::vector<float> weights_;  ///< [rest][kBlockColumns]
};

}  // namespace

std::size_t rounding_cell(const WeightFormat& format) {
  return lattice_search_of(format) == nullptr ? 1 : kCell;
}

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
