#include "quant/rounding.h"

#include <algorithm>
#include <cmath>

#include "kernels/bit_packing.h"
#include "kernels/float_matrix.h"

namespace ballast::quant {

namespace {

// F16 holds magnitudes up to 65,504 and loses digits below 6e-5; a scale is a 254th to a 7th of its group's largest
// value.
constexpr float kLargestF16 = 60000.0F;
constexpr float kSmallestF16 = 1e-3F;

kernels::FloatType float_type(DType dtype) {
  return dtype == DType::kF16 ? kernels::FloatType::kF16 : kernels::FloatType::kBF16;
}

/// A group's codes, scale and zero.
struct Grid {
  float scale = 0;
  int zero = 0;
};

/// Rounds one row; owns the scratch that this takes.
class RowRounder {
 public:
  RowRounder(const WeightFormat& format, DType scale_type)
      : format_(format), scale_type_(scale_type), top_((1 << format.bits) - 1), middle_(1 << (format.bits - 1)) {}

  /// Values that are NaN-free; `kept` marks the columns that are quantized.
  Grid round_group(std::span<const float> values, std::span<const std::uint8_t> kept, std::span<std::uint8_t> codes) {
    const Grid grid = format_.symmetric ? symmetric_grid(values, kept) : asymmetric_grid(values, kept);
    for (std::size_t i = 0; i < values.size(); ++i) {
      codes[i] = static_cast<std::uint8_t>(kept[i] != 0 ? code(values[i], grid) : grid.zero);
    }
    return grid;
  }

 private:
  // A scale as it will be read back.
  float stored(float scale) const {
    std::uint16_t bits = 0;
    float result = 0;
    kernels::from_float(&scale, 1, float_type(scale_type_), &bits);
    kernels::to_float(&bits, float_type(scale_type_), 1, &result);
    return result;
  }

  int lowest() const { return format_.symmetric && format_.bits == 8 ? 1 : 0; }  // -127 .. 127

  int code(float value, const Grid& grid) const {
    if (grid.scale == 0) return grid.zero;
    const float steps = std::nearbyint(value / grid.scale) + static_cast<float>(grid.zero);
    return static_cast<int>(std::clamp(steps, static_cast<float>(lowest()), static_cast<float>(top_)));
  }

  double squared_error(std::span<const float> values, std::span<const std::uint8_t> kept, const Grid& grid) const {
    double error = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (kept[i] == 0) continue;
      const double difference = double{values[i]} - double{grid.scale} * (code(values[i], grid) - grid.zero);
      error += difference * difference;
    }
    return error;
  }

  Grid symmetric_grid(std::span<const float> values, std::span<const std::uint8_t> kept) const {
    float extreme = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (kept[i] != 0 && std::abs(values[i]) > std::abs(extreme)) extreme = values[i];
    }
    const Grid even = {stored(std::abs(extreme) / static_cast<float>(middle_ - 1)), middle_};
    if (format_.bits == 8) return even;
    // Few bits: one more step on the side of the extreme value can be worth more than symmetry.
    const Grid uneven = {stored(extreme / static_cast<float>(-middle_)), middle_};
    return squared_error(values, kept, uneven) < squared_error(values, kept, even) ? uneven : even;
  }

  Grid asymmetric_grid(std::span<const float> values, std::span<const std::uint8_t> kept) const {
    float low = 0;
    float high = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (kept[i] == 0) continue;
      low = std::min(low, values[i]);
      high = std::max(high, values[i]);
    }
    Grid grid;
    grid.scale = stored((high - low) / static_cast<float>(top_));
    if (grid.scale != 0) grid.zero = std::clamp(static_cast<int>(std::nearbyint(-low / grid.scale)), 0, top_);
    return grid;
  }

  WeightFormat format_;
  DType scale_type_;
  int top_;
  int middle_;
};

}  // namespace

DType half_type_for(float absmax) {
  return absmax < kLargestF16 && (absmax == 0 || absmax > kSmallestF16) ? DType::kF16 : DType::kBF16;
}

model::QuantizedTensor empty_quantized(std::size_t rows, std::size_t cols, const WeightFormat& format,
                                       std::span<const std::int32_t> outlier_columns, float absmax) {
  model::QuantizedTensor tensor;
  tensor.rows = rows;
  tensor.cols = cols;
  tensor.bits = format.bits;
  tensor.group_size = format.group_size == 0 ? cols : format.group_size;
  const std::size_t groups = tensor.view().groups();
  tensor.codes.resize(rows * packed_row_bytes(cols, format.bits));
  tensor.scale_type = half_type_for(absmax);
  tensor.scales.resize(rows * groups);
  if (!format.symmetric) tensor.zeros.resize(rows * packed_row_bytes(groups, format.bits));
  tensor.outlier_columns.assign(outlier_columns.begin(), outlier_columns.end());
  tensor.outlier_type = half_type_for(absmax);
  tensor.outlier_weights.resize(rows * outlier_columns.size());
  return tensor;
}

model::QuantizedTensor round_to_nearest(std::span<const float> values, std::size_t rows, std::size_t cols,
                                        const WeightFormat& format, std::span<const std::int32_t> outlier_columns,
                                        float absmax) {
  model::QuantizedTensor tensor = empty_quantized(rows, cols, format, outlier_columns, absmax);
  const std::size_t groups = tensor.view().groups();
  const std::size_t outliers = outlier_columns.size();
  std::vector<std::uint8_t> kept(cols, 1);
  for (const std::int32_t column : outlier_columns) kept[static_cast<std::size_t>(column)] = 0;

#pragma omp parallel
  {
    RowRounder rounder(format, tensor.scale_type);
    std::vector<std::uint8_t> codes(cols);
    std::vector<std::uint8_t> zeros(groups);
    std::vector<float> scales(groups);
    std::vector<float> split(outliers);
#pragma omp for
    for (std::size_t r = 0; r < rows; ++r) {
      const std::span<const float> row = values.subspan(r * cols, cols);
      for (std::size_t g = 0; g < groups; ++g) {
        const std::size_t begin = g * tensor.group_size;
        const std::size_t size = std::min(tensor.group_size, cols - begin);
        const Grid grid = rounder.round_group(row.subspan(begin, size), std::span(kept).subspan(begin, size),
                                              std::span(codes).subspan(begin, size));
        scales[g] = grid.scale;
        zeros[g] = static_cast<std::uint8_t>(grid.zero);
      }
      kernels::pack_codes(codes, format.bits, tensor.codes.data() + r * packed_row_bytes(cols, format.bits));
      kernels::from_float(scales.data(), groups, float_type(tensor.scale_type), tensor.scales.data() + r * groups);
      if (!format.symmetric)
        kernels::pack_codes(zeros, format.bits, tensor.zeros.data() + r * packed_row_bytes(groups, format.bits));
      if (outliers == 0) continue;
      for (std::size_t j = 0; j < outliers; ++j) split[j] = row[static_cast<std::size_t>(outlier_columns[j])];
      kernels::from_float(split.data(), outliers, float_type(tensor.outlier_type),
                          tensor.outlier_weights.data() + r * outliers);
    }
  }
  return tensor;
}

}  // namespace ballast::quant
