#include "quant/search/output_error.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "quant/rounding/float_product.h"
#include "quant/rounding/grids/quant_params.h"
#include "quant/rounding/int8_error.h"
#include "quant/rounding/rounding.h"

namespace ballast::quant {

namespace {

// The number of sums of E's rows with random signs, whose mean estimates the trace of E H E^T (Hutchinson 1989).
constexpr std::size_t kErrorSums = 64;

// The number of columns that are summed at once: those of a thousand rows fit a core's cache.
constexpr std::size_t kSummedColumns = 128;

/// Returns 1 or -1, deterministic for the numbers: one bit of MurmurHash3's finalizer.
float random_sign(std::uint64_t sum, std::uint64_t row) {
  std::uint64_t bits = (row + 1) * 0x9E3779B97F4A7C15ULL + sum * 0xD1B54A32D192ED03ULL;
  bits = (bits ^ (bits >> 33U)) * 0xFF51AFD7ED558CCDULL;
  bits = (bits ^ (bits >> 33U)) * 0xC4CEB9FE1A85EC53ULL;
  return (bits >> 63U) == 0 ? 1.0F : -1.0F;
}

/// Computes rows of the change by rounding, W - round(W): some at a time, because those of a head are as large as
/// everything else in memory.
class RowErrors {
 public:
  static constexpr std::size_t kAtOnce = 1024;

  explicit RowErrors(const WorkingLinear& linear)
      : values_(linear), rounded_(linear.quantized->packed()), rows_(linear.rows), cols_(linear.cols) {}

  /// Returns the rows from `first` on: [up to kAtOnce][cols], valid until the next call.
  std::span<const float> from(std::size_t first) {
    const std::size_t count = std::min(kAtOnce, rows_ - first);
    errors_.resize(count * cols_);
#pragma omp parallel for
    for (std::size_t r = 0; r < count; ++r) {
      float* row = errors_.data() + r * cols_;
      const float* values = values_.data() + (first + r) * cols_;
      rounded_.decode_row(first + r, row);
      for (std::size_t c = 0; c < cols_; ++c) row[c] = values[c] - row[c];
    }
    return errors_;
  }

  /// Returns [sums][cols]: sums with weights such that their squares add up to those of all rows; few rows are returned
  /// unchanged.
  std::vector<float> signed_sums() {
    if (rows_ <= kErrorSums) {
      const std::span<const float> all = from(0);
      return {all.begin(), all.end()};
    }
    std::vector<float> sums(kErrorSums * cols_);
    const float share = 1 / std::sqrt(static_cast<float>(kErrorSums));
    std::vector<float> factors(kErrorSums * kAtOnce);
    for (std::size_t first = 0; first < rows_; first += kAtOnce) {
      const std::span<const float> errors = from(first);
      const std::size_t rows = errors.size() / cols_;
      for (std::size_t i = 0; i < kErrorSums * rows; ++i) factors[i] = share * random_sign(i / rows, first + i % rows);
#pragma omp parallel for
      for (std::size_t begin = 0; begin < cols_; begin += kSummedColumns) {
        const std::size_t count = std::min(kSummedColumns, cols_ - begin);
        for (std::size_t sum = 0; sum < kErrorSums; ++sum) {
          float* to = sums.data() + sum * cols_ + begin;
          for (std::size_t r = 0; r < rows; ++r) {
            const float factor = factors[sum * rows + r];
            const float* row = errors.data() + r * cols_ + begin;
            for (std::size_t c = 0; c < count; ++c) to[c] += factor * row[c];
          }
        }
      }
    }
    return sums;
  }

 private:
  LinearValues values_;
  kernels::QuantizedMatrix rounded_;
  std::size_t rows_;
  std::size_t cols_;
  std::vector<float> errors_;
};

}  // namespace

std::vector<double> column_errors(const WeightRowSample& sample, const WeightFormat& format,
                                  std::span<const float> importance) {
  const std::size_t rows = sample.rows;
  const std::size_t cols = sample.cols;
  const std::size_t group_size = grid_group_size(format, cols);
  const std::vector<std::uint8_t> quantized_mask(cols, 1);
  std::vector<float> squares(sample.values.size());
#pragma omp parallel
  {
    GridFinder finder(format, sample.scale_type, GridMethod::kSearch,
                      {.quantized_mask = quantized_mask, .importance = importance});
    RowGrids grids;
    std::vector<std::uint8_t> codes(cols);
#pragma omp for
    for (std::size_t i = 0; i < rows; ++i) {
      const std::span<const float> row = std::span(sample.values).subspan(i * cols, cols);
      finder.find(row, grids);
      finder.nearest_codes(grids, codes);
      for (std::size_t c = 0; c < cols; ++c) {
        const QuantParams& grid = grids.groups[c / group_size];
        const float difference = row[c] - value_of(codes[c], grid);
        squares[i * cols + c] = difference * difference;
      }
    }
  }
  std::vector<double> errors(cols);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t c = 0; c < cols; ++c) errors[c] += double{squares[i * cols + c]};
  }
  const double scale = static_cast<double>(sample.all_rows) / static_cast<double>(rows);
  for (std::size_t c = 0; c < cols; ++c) errors[c] *= scale * double{importance[c]};
  return errors;
}

double output_error(const WorkingLinear& linear, const Hessian* moments, std::span<const float> importance) {
  RowErrors rows(linear);
  double error = 0;
  if (moments == nullptr) {
    for (std::size_t first = 0; first < linear.rows; first += RowErrors::kAtOnce) {
      const std::span<const float> errors = rows.from(first);
      for (std::size_t begin = 0; begin < errors.size(); begin += linear.cols) {
        for (std::size_t c = 0; c < linear.cols; ++c) {
          error += double{errors[begin + c]} * double{errors[begin + c]} * double{importance[c]};
        }
      }
    }
    return error;
  }
  const std::vector<float> sums = rows.signed_sums();
  std::vector<float> products(sums.size());
  multiply_transposed(sums, moments->values, linear.cols, {.dst = products.data(), .stride = linear.cols});
  for (std::size_t i = 0; i < sums.size(); ++i) error += double{sums[i]} * double{products[i]};
  return std::max(0.0, error);
}

ActivationErrors::ActivationErrors(const WorkingLinear& linear, const InputPeaks& peaks)
    : peaks_(peaks), weights_(linear.cols) {
  const LinearValues values(linear);
  // Each thread has separate columns: sums are computed in the order of the rows.
#pragma omp parallel for
  for (std::size_t begin = 0; begin < linear.cols; begin += kSummedColumns) {
    const std::size_t end = std::min(linear.cols, begin + kSummedColumns);
    for (std::size_t r = 0; r < linear.rows; ++r) {
      const float* row = values.data() + r * linear.cols;
      for (std::size_t c = begin; c < end; ++c) weights_[c] += double{row[c]} * double{row[c]};
    }
  }
}

double ActivationErrors::total(std::size_t group_size) const {
  const std::vector<float>& squares = peaks_.of_group_size(group_size);
  double error = 0;
  for (std::size_t g = 0; g < squares.size(); ++g) {
    const std::size_t begin = g * group_size;
    error += double{squares[g]} * error_per_square(begin, std::min(weights_.size(), begin + group_size));
  }
  return error;
}

std::vector<float> ActivationErrors::gains() const {
  constexpr std::size_t kGroup = InputPeaks::kGroupSizes.front();
  std::vector<float> gains(weights_.size());
  for (std::size_t begin = 0; begin < gains.size(); begin += kGroup) {
    const std::size_t end = std::min(gains.size(), begin + kGroup);
    const double error = error_per_square(begin, end);
    for (std::size_t c = begin; c < end; ++c) gains[c] = static_cast<float>(double{peaks_.excess[c]} * error);
  }
  return gains;
}

double ActivationErrors::error_per_square(std::size_t begin, std::size_t end) const {
  double weights = 0;
  for (std::size_t c = begin; c < end; ++c) weights += weights_[c];
  return int8_squared_error(weights);
}

}  // namespace ballast::quant
