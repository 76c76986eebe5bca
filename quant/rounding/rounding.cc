#include "quant/rounding/rounding.h"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "formats/blocks/ggml_row_writer.h"
#include "formats/blocks/ggml_rows.h"
#include "formats/scale_codes.h"
#include "kernels/matrix/bit_packing.h"
#include "kernels/matrix/float_matrix.h"
#include "quant/rounding/grids/half_float.h"

namespace ballast::quant {

namespace {

// F16 holds magnitudes up to 65,504 and loses digits below 6e-5; a scale is a 254th to a 7th of its group's largest
// value.
constexpr float kLargestF16 = 60000.0F;
constexpr float kSmallestF16 = 1e-3F;

/// Returns the indices of a codebook's values; `values` contains each value plus kCodebookZero, or kCodebookZero
/// itself, which becomes the index of the value nearest to 0: the code of a column that keeps 16 bits.
std::vector<std::uint8_t> codebook_indices(std::span<const std::uint8_t> values, const Codebook& book) {
  std::array<std::uint8_t, std::size_t{2} * kCodebookZero> indices{};
  indices[kCodebookZero] = static_cast<std::uint8_t>(nearest_code_to_zero(book));
  for (std::size_t i = 0; i < book.values.size(); ++i) {
    const int shifted = book.values[i] + kCodebookZero;
    indices[static_cast<std::size_t>(shifted)] = static_cast<std::uint8_t>(i);
  }
  std::vector<std::uint8_t> result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) result[i] = indices[values[i]];
  return result;
}

void store_blocks(std::span<const std::uint8_t> codes, const RowGrids& grids, std::size_t row,
                  formats::CodeMatrix& matrix) {
  const DType type = matrix.format.block_type;
  kernels::QuantizedRow stored(formats::written_layout(type, matrix.cols));
  stored.codes.assign(codes.begin(), codes.end());
  stored.scales = grids.block_scales;
  stored.minimums = grids.block_minimums;
  stored.factors = grids.factors;
  stored.minimum_factors = grids.minimum_factors;
  formats::write_quantized_row(type, stored,
                               std::as_writable_bytes(std::span(matrix.codes)).data() + row * matrix.row_bytes());
}

/// Stores one 16-bit value for each of a row's groups, value(grid).
template <typename Value>
void store_group_values(const RowGrids& grids, std::size_t row, DType type, const Value& value,
                        std::vector<std::uint16_t>& dst) {
  std::vector<float> floats(grids.groups.size());
  std::ranges::transform(grids.groups, floats.begin(), value);
  kernels::from_float(floats.data(), floats.size(), formats::scale_float_type(type), dst.data() + row * floats.size());
}

}  // namespace

DType half_type_for(float absmax) {
  return absmax < kLargestF16 && (absmax == 0 || absmax > kSmallestF16) ? DType::kF16 : DType::kBF16;
}

std::vector<std::uint8_t> quantized_mask(std::size_t cols, std::span<const std::int32_t> outlier_columns) {
  std::vector<std::uint8_t> mask(cols, 1);
  for (const std::int32_t column : outlier_columns) mask[static_cast<std::size_t>(column)] = 0;
  return mask;
}

void store_row(std::span<const float> values, std::span<const std::uint8_t> codes, const RowGrids& grids,
               std::size_t row, formats::CodeMatrix& matrix) {
  const WeightFormat& format = matrix.format;
  if (format.kind == WeightFormat::Kind::kBlocks) return store_blocks(codes, grids, row, matrix);
  std::uint8_t* packed = matrix.codes.data() + row * matrix.row_bytes();
  if (format.codebook == CodebookId::kUniform) {
    kernels::pack_codes(codes, format.bits, packed);
  } else {
    kernels::pack_codes(codebook_indices(codes, codebook(format.codebook)), format.bits, packed);
  }
  const std::size_t groups = grids.groups.size();
  store_group_values(grids, row, matrix.scale_type, [](const QuantParams& grid) { return grid.scale; }, matrix.scales);
  if (!matrix.offsets.empty()) {
    // Exact: a grid has either a zero point, which is a power of two, or a 16-bit minimum.
    store_group_values(
        grids, row, matrix.scale_type, [](const QuantParams& grid) { return value_of(0, grid); }, matrix.offsets);
  }
  if (!matrix.row_scales.empty()) {
    matrix.row_scales[row] = grids.row_scale;
    std::ranges::copy(grids.scale_codes, matrix.scale_codes.begin() + static_cast<std::ptrdiff_t>(row * groups));
  }
  if (!matrix.zeros.empty()) {
    std::vector<std::uint8_t> zeros(groups);
    for (std::size_t g = 0; g < groups; ++g) zeros[g] = static_cast<std::uint8_t>(grids.groups[g].zero_point);
    kernels::pack_codes(zeros, format.bits, matrix.zeros.data() + row * packed_row_bytes(groups, format.bits));
  }
  const std::size_t outliers = matrix.outlier_columns.size();
  std::vector<float> kept(outliers);
  for (std::size_t j = 0; j < outliers; ++j) kept[j] = values[static_cast<std::size_t>(matrix.outlier_columns[j])];
  kernels::from_float(kept.data(), outliers, formats::scale_float_type(matrix.outlier_type),
                      matrix.outlier_weights.data() + row * outliers);
}

std::vector<QuantParams> grids_of_row(const QuantizedView& matrix, std::size_t row) {
  const std::vector<float> scales = formats::group_scales(matrix, row);
  const std::vector<std::uint8_t> zeros = formats::group_zeros(matrix, row);
  std::vector<QuantParams> grids(scales.size());
  for (std::size_t g = 0; g < grids.size(); ++g) grids[g] = {.scale = scales[g], .zero_point = zeros[g]};
  return grids;
}

formats::CodeMatrix round_to_nearest(std::span<const float> values, std::size_t rows, std::size_t cols,
                                     const WeightFormat& format, std::span<const std::int32_t> outlier_columns,
                                     float absmax, const RoundingOptions& options) {
  const DType half_type = options.half_type.value_or(half_type_for(absmax));
  formats::CodeMatrix matrix(rows, cols, format, outlier_columns, half_type);
  const std::vector<std::uint8_t> mask = quantized_mask(cols, outlier_columns);

#pragma omp parallel
  {
    GridFinder finder(format, half_type, options.method, {.quantized_mask = mask, .importance = options.importance});
    RowGrids grids;
    std::vector<std::uint8_t> codes(cols);
#pragma omp for
    for (std::size_t r = 0; r < rows; ++r) {
      const std::span<const float> row = values.subspan(r * cols, cols);
      finder.find(row, grids);
      finder.nearest_codes(grids, codes);
      store_row(row, codes, grids, r, matrix);
    }
  }
  return matrix;
}

}  // namespace ballast::quant
