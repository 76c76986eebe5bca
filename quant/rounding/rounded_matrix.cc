#include "quant/rounding/rounded_matrix.h"

#include <cstdint>
#include <span>

#include "files/gguf/ggml_blocks.h"
#include "formats/scale_codes.h"
#include "kernels/matrix/bit_packing.h"
#include "kernels/matrix/float_matrix.h"

namespace ballast::quant {

namespace {

std::vector<float> floats_of(const std::vector<std::uint16_t>& halves, DType type) {
  std::vector<float> floats(halves.size());
  kernels::to_float(halves.data(), formats::scale_float_type(type), halves.size(), floats.data());
  return floats;
}

/// Calls decode_row(row, codes of the row, destination) for all rows, in parallel.
template <typename DecodeRow>
std::vector<float> decode_rows(std::size_t rows, std::size_t cols, int bits, std::span<const std::uint8_t> packed,
                               const DecodeRow& decode_row) {
  std::vector<float> values(rows * cols);
  const std::size_t row_bytes = packed_row_bytes(cols, bits);
#pragma omp parallel
  {
    std::vector<std::uint8_t> codes(cols);
#pragma omp for
    for (std::size_t row = 0; row < rows; ++row) {
      kernels::unpack_codes(packed.data() + row * row_bytes, bits, codes);
      decode_row(row, std::span<const std::uint8_t>(codes), values.data() + row * cols);
    }
  }
  return values;
}

std::vector<float> decoded(const formats::QuantizedTensor& tensor) {
  const std::size_t outliers = tensor.outlier_columns.size();
  const std::vector<float> outlier_weights = floats_of(tensor.outlier_weights, tensor.outlier_type);
  const bool uniform = tensor.codebook == CodebookId::kUniform;
  const std::span<const std::int8_t> table =
      uniform ? std::span<const std::int8_t>() : codebook(tensor.codebook).values;
  return decode_rows(tensor.rows, tensor.cols, tensor.bits, tensor.codes,
                     [&](std::size_t row, std::span<const std::uint8_t> codes, float* values) {
                       const std::vector<QuantParams> grids = grids_of_row(tensor.view(), row);
                       for (std::size_t c = 0; c < codes.size(); ++c) {
                         const int code = uniform ? codes[c] : kCodebookZero + table[codes[c]];
                         values[c] = value_of(code, grids[c / tensor.group_size]);
                       }
                       for (std::size_t i = 0; i < outliers; ++i) {
                         values[tensor.outlier_columns[i]] = outlier_weights[row * outliers + i];
                       }
                     });
}

std::vector<float> decoded(const formats::AffineTensor& tensor) {
  const std::vector<float> scales = floats_of(tensor.scales, tensor.half_type);
  const std::vector<float> offsets = floats_of(tensor.offsets, tensor.half_type);
  return decode_rows(tensor.rows, tensor.cols, tensor.bits, tensor.codes,
                     [&](std::size_t row, std::span<const std::uint8_t> codes, float* values) {
                       for (std::size_t c = 0; c < codes.size(); ++c) {
                         const std::size_t group = row * tensor.groups() + c / tensor.group_size;
                         values[c] = static_cast<float>(codes[c]) * scales[group] + offsets[group];
                       }
                     });
}

std::vector<float> decoded(const formats::BlockTensor& tensor) {
  std::vector<float> values(tensor.rows * tensor.cols);
  const std::size_t blocks = tensor.cols / dtype_info(tensor.dtype).block_elements;
#pragma omp parallel for
  for (std::size_t row = 0; row < tensor.rows; ++row) {
    files::decode_ggml_blocks(tensor.dtype, tensor.blocks.data() + row * tensor.row_bytes(), blocks,
                              values.data() + row * tensor.cols);
  }
  return values;
}

}  // namespace

std::vector<QuantParams> grids_of_row(const QuantizedView& matrix, std::size_t row) {
  const std::vector<float> scales = formats::group_scales(matrix, row);
  const std::vector<std::uint8_t> zeros = formats::group_zeros(matrix, row);
  std::vector<QuantParams> grids(scales.size());
  for (std::size_t g = 0; g < grids.size(); ++g) grids[g] = {.scale = scales[g], .zero_point = zeros[g]};
  return grids;
}

std::vector<float> decoded(const RoundedMatrix& matrix) {
  return std::visit([](const auto& tensor) { return decoded(tensor); }, matrix);
}

}  // namespace ballast::quant
