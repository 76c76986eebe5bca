#include "quant/rounding/rounding.h"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "files/gguf/ggml_row_writer.h"
#include "files/gguf/ggml_rows.h"
#include "formats/scale_codes.h"
#include "kernels/matrix/bit_packing.h"
#include "kernels/matrix/float_matrix.h"
#include "quant/rounding/half_float.h"

namespace ballast::quant {

namespace {

// F16 holds magnitudes up to 65,504 and loses digits below 6e-5; a scale is a 254th to a 7th of its group's largest
// value.
constexpr float kLargestF16 = 60000.0F;
constexpr float kSmallestF16 = 1e-3F;

formats::QuantizedTensor empty_integers(std::size_t rows, std::size_t cols, const WeightFormat& format,
                                        std::span<const std::int32_t> outlier_columns, DType half_type) {
  formats::QuantizedTensor tensor;
  tensor.rows = rows;
  tensor.cols = cols;
  tensor.bits = format.bits;
  tensor.codebook = format.codebook;
  tensor.group_size = format.group_size == 0 ? cols : format.group_size;
  const std::size_t groups = tensor.view().groups();
  tensor.codes.resize(rows * packed_row_bytes(cols, format.bits));
  tensor.scale_type = half_type;
  tensor.scales.resize(rows * groups);
  if (format.scale_bits == 8) {
    tensor.scale_codes.resize(rows * groups);
    tensor.row_scales.resize(rows);
  }
  if (!format.symmetric) tensor.zeros.resize(rows * packed_row_bytes(groups, format.bits));
  tensor.outlier_columns.assign(outlier_columns.begin(), outlier_columns.end());
  tensor.outlier_type = half_type;
  tensor.outlier_weights.resize(rows * outlier_columns.size());
  return tensor;
}

/// Returns the indices of a codebook's values; `values` contains each value plus kCodebookZero.
std::vector<std::uint8_t> codebook_indices(std::span<const std::uint8_t> values, const Codebook& book) {
  std::array<std::uint8_t, 2 * kCodebookZero> indices{};
  for (std::size_t i = 0; i < book.values.size(); ++i) {
    indices[static_cast<std::size_t>(book.values[i] + kCodebookZero)] = static_cast<std::uint8_t>(i);
  }
  std::vector<std::uint8_t> result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) result[i] = indices[values[i]];
  return result;
}

void store_integers(std::span<const float> values, std::span<const std::uint8_t> codes, const RowGrids& grids,
                    std::size_t row, formats::QuantizedTensor& tensor) {
  const std::size_t groups = grids.groups.size();
  const std::size_t outliers = tensor.outlier_columns.size();
  std::uint8_t* packed = tensor.codes.data() + row * packed_row_bytes(tensor.cols, tensor.bits);
  if (tensor.codebook == CodebookId::kUniform) {
    kernels::pack_codes(codes, tensor.bits, packed);
  } else {
    kernels::pack_codes(codebook_indices(codes, codebook(tensor.codebook)), tensor.bits, packed);
  }

  std::vector<float> floats(std::max(groups, outliers));
  for (std::size_t g = 0; g < groups; ++g) floats[g] = grids.groups[g].scale;
  kernels::from_float(floats.data(), groups, formats::scale_float_type(tensor.scale_type),
                      tensor.scales.data() + row * groups);
  if (!tensor.row_scales.empty()) {
    tensor.row_scales[row] = grids.row_scale;
    std::ranges::copy(grids.scale_codes, tensor.scale_codes.begin() + static_cast<std::ptrdiff_t>(row * groups));
  }
  if (!tensor.zeros.empty()) {
    std::vector<std::uint8_t> zeros(groups);
    for (std::size_t g = 0; g < groups; ++g) zeros[g] = static_cast<std::uint8_t>(grids.groups[g].zero_point);
    kernels::pack_codes(zeros, tensor.bits, tensor.zeros.data() + row * packed_row_bytes(groups, tensor.bits));
  }
  for (std::size_t j = 0; j < outliers; ++j) floats[j] = values[static_cast<std::size_t>(tensor.outlier_columns[j])];
  kernels::from_float(floats.data(), outliers, formats::scale_float_type(tensor.outlier_type),
                      tensor.outlier_weights.data() + row * outliers);
}

formats::AffineTensor empty_affine(std::size_t rows, std::size_t cols, const WeightFormat& format, DType half_type) {
  formats::AffineTensor tensor{.rows = rows,
                               .cols = cols,
                               .bits = format.bits,
                               .group_size = format.group_size,
                               .half_type = half_type,
                               .codes = {},
                               .scales = {},
                               .offsets = {}};
  tensor.codes.resize(rows * packed_row_bytes(cols, format.bits));
  tensor.scales.resize(rows * tensor.groups());
  tensor.offsets.resize(rows * tensor.groups());
  return tensor;
}

void store_affine(std::span<const std::uint8_t> codes, const RowGrids& grids, std::size_t row,
                  formats::AffineTensor& tensor) {
  kernels::pack_codes(codes, tensor.bits, tensor.codes.data() + row * packed_row_bytes(tensor.cols, tensor.bits));
  for (std::size_t g = 0; g < grids.groups.size(); ++g) {
    const QuantParams& grid = grids.groups[g];
    tensor.scales[row * tensor.groups() + g] = half_bits(grid.scale, tensor.half_type);
    // Exact: a grid has either a zero point, which is a power of two, or a 16-bit minimum.
    tensor.offsets[row * tensor.groups() + g] = half_bits(value_of(0, grid), tensor.half_type);
  }
}

void store_blocks(std::span<const std::uint8_t> codes, const RowGrids& grids, std::size_t row,
                  formats::BlockTensor& tensor) {
  kernels::QuantizedRow stored(*files::quantized_form(tensor.dtype, 1, tensor.cols));
  stored.codes.assign(codes.begin(), codes.end());
  stored.scales = grids.block_scales;
  stored.minimums = grids.block_minimums;
  stored.factors = grids.factors;
  stored.minimum_factors = grids.minimum_factors;
  files::write_quantized_row(tensor.dtype, stored, tensor.blocks.data() + row * tensor.row_bytes());
}

}  // namespace

DType half_type_for(float absmax) {
  return absmax < kLargestF16 && (absmax == 0 || absmax > kSmallestF16) ? DType::kF16 : DType::kBF16;
}

RoundedMatrix empty_rounded(std::size_t rows, std::size_t cols, const WeightFormat& format,
                            std::span<const std::int32_t> outlier_columns, DType half_type) {
  if (format.kind == WeightFormat::Kind::kAffine) return empty_affine(rows, cols, format, half_type);
  if (format.kind != WeightFormat::Kind::kBlocks) {
    return empty_integers(rows, cols, format, outlier_columns, half_type);
  }
  formats::BlockTensor tensor{.dtype = format.block_type, .rows = rows, .cols = cols, .blocks = {}};
  tensor.blocks.resize(rows * tensor.row_bytes());
  return tensor;
}

std::vector<std::uint8_t> quantized_mask(std::size_t cols, std::span<const std::int32_t> outlier_columns) {
  std::vector<std::uint8_t> mask(cols, 1);
  for (const std::int32_t column : outlier_columns) mask[static_cast<std::size_t>(column)] = 0;
  return mask;
}

void store_row(std::span<const float> values, std::span<const std::uint8_t> codes, const RowGrids& grids,
               std::size_t row, RoundedMatrix& matrix) {
  if (auto* blocks = std::get_if<formats::BlockTensor>(&matrix)) {
    store_blocks(codes, grids, row, *blocks);
  } else if (auto* affine = std::get_if<formats::AffineTensor>(&matrix)) {
    store_affine(codes, grids, row, *affine);
  } else {
    store_integers(values, codes, grids, row, std::get<formats::QuantizedTensor>(matrix));
  }
}

RoundedMatrix round_to_nearest(std::span<const float> values, std::size_t rows, std::size_t cols,
                               const WeightFormat& format, std::span<const std::int32_t> outlier_columns, float absmax,
                               const RoundingOptions& options) {
  const DType half_type = options.half_type.value_or(half_type_for(absmax));
  RoundedMatrix matrix = empty_rounded(rows, cols, format, outlier_columns, half_type);
  const std::vector<std::uint8_t> mask = quantized_mask(cols, outlier_columns);
  const QuantRange range(format);
  const std::size_t group_size = grid_group_size(format, cols);

#pragma omp parallel
  {
    GridFinder finder(format, half_type, options.method, {.quantized_mask = mask, .importance = options.importance});
    RowGrids grids;
    std::vector<std::uint8_t> codes(cols);
#pragma omp for
    for (std::size_t r = 0; r < rows; ++r) {
      const std::span<const float> row = values.subspan(r * cols, cols);
      finder.find(row, grids);
      for (std::size_t c = 0; c < cols; ++c) {
        const QuantParams& grid = grids.groups[c / group_size];
        codes[c] = static_cast<std::uint8_t>(mask[c] != 0 ? code_of(row[c], grid, range) : grid.zero_point);
      }
      store_row(row, codes, grids, r, matrix);
    }
  }
  return matrix;
}

}  // namespace ballast::quant
