#include "formats/code_matrix.h"

#include <cassert>
#include <cstring>
#include <optional>
#include <utility>

#include "formats/blocks/ggml_blocks.h"
#include "formats/blocks/ggml_rows.h"
#include "formats/integer_groups.h"
#include "formats/scale_codes.h"
#include "kernels/matrix/bit_packing.h"
#include "kernels/matrix/float_matrix.h"

namespace ballast::formats {

namespace {

using Kind = WeightFormat::Kind;

template <typename T>
std::vector<T> values_of(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

std::vector<float> floats_of(std::span<const std::uint16_t> halves, DType type) {
  std::vector<float> floats(halves.size());
  kernels::to_float(halves.data(), scale_float_type(type), halves.size(), floats.data());
  return floats;
}

/// Decodes rows of codes that are no blocks.
class RowDecoder {
 public:
  explicit RowDecoder(const CodeMatrix& matrix)
      : matrix_(matrix), outlier_weights_(floats_of(matrix.outlier_weights, matrix.outlier_type)) {}

  void decode(std::size_t row, float* values) const {
    const std::size_t group_size = matrix_.group_size();
    std::vector<std::uint8_t> codes(matrix_.cols);
    kernels::unpack_codes(matrix_.codes.data() + row * matrix_.row_bytes(), matrix_.format.bits, codes);
    const std::vector<float> scales = of_row(matrix_.scales, row);
    if (matrix_.format.kind == Kind::kAffine) {
      const std::vector<float> offsets = of_row(matrix_.offsets, row);
      for (std::size_t c = 0; c < codes.size(); ++c) {
        values[c] = static_cast<float>(codes[c]) * scales[c / group_size] + offsets[c / group_size];
      }
      return;
    }
    const std::vector<std::uint8_t> zeros = group_zeros(matrix_.view(), row);
    const bool uniform = matrix_.format.codebook == CodebookId::kUniform;
    const auto table = uniform ? std::span<const std::int8_t>() : codebook(matrix_.format.codebook).values;
    for (std::size_t c = 0; c < codes.size(); ++c) {
      const int step = uniform ? codes[c] - zeros[c / group_size] : table[codes[c]];
      values[c] = static_cast<float>(step) * scales[c / group_size];
    }
    const std::size_t outliers = matrix_.outlier_columns.size();
    for (std::size_t i = 0; i < outliers; ++i) {
      values[matrix_.outlier_columns[i]] = outlier_weights_[row * outliers + i];
    }
  }

 private:
  std::vector<float> of_row(const std::vector<std::uint16_t>& values, std::size_t row) const {
    return floats_of(std::span(values).subspan(row * matrix_.groups(), matrix_.groups()), matrix_.scale_type);
  }

  const CodeMatrix& matrix_;
  std::vector<float> outlier_weights_;
};

kernels::QuantizedMatrix packed_affine(const CodeMatrix& matrix) {
  IntegerGroups groups;
  groups.rows = matrix.rows;
  groups.cols = matrix.cols;
  groups.bits = matrix.format.bits;
  groups.group_size = matrix.group_size();
  groups.scales = floats_of(matrix.scales, matrix.scale_type);
  groups.offsets = floats_of(matrix.offsets, matrix.scale_type);
  groups.read_codes = [&matrix](std::size_t row, std::uint8_t* dst) {
    kernels::unpack_codes(matrix.codes.data() + row * matrix.row_bytes(), matrix.format.bits, {dst, matrix.cols});
  };
  const StoredCodes codes = stored_codes("MLX", std::move(groups));
  assert(codes.layout);
  return {*codes.layout, codes.read_row};
}

kernels::QuantizedMatrix packed_blocks(const CodeMatrix& matrix) {
  const DType type = matrix.format.block_type;
  const std::optional<kernels::CodeLayout> exact = block_layout(type, matrix.rows, matrix.cols);
  const auto read = exact ? read_quantized_row : round_row;
  return {exact.value_or(rounded_layout(matrix.rows, matrix.cols)), [&](std::size_t row, kernels::QuantizedRow& dst) {
            read(type, std::as_bytes(std::span(matrix.codes)).data() + row * matrix.row_bytes(), dst);
          }};
}

}  // namespace

CodeMatrix::CodeMatrix(std::size_t row_count, std::size_t col_count, const WeightFormat& weight_format,
                       std::span<const std::int32_t> outliers, DType half_type)
    : rows(row_count), cols(col_count), format(weight_format), scale_type(half_type), outlier_type(half_type) {
  codes.resize(rows * row_bytes());
  if (format.kind == Kind::kBlocks) return;
  scales.resize(rows * groups());
  if (format.kind == Kind::kAffine) {
    offsets.resize(rows * groups());
    return;
  }
  if (format.scale_bits == 8) {
    scale_codes.resize(rows * groups());
    row_scales.resize(rows);
  }
  if (!format.symmetric) zeros.resize(rows * packed_row_bytes(groups(), format.bits));
  outlier_columns.assign(outliers.begin(), outliers.end());
  outlier_weights.resize(rows * outliers.size());
}

CodeMatrix::CodeMatrix(const QuantizedView& view)
    : rows(view.rows),
      cols(view.cols),
      format(format_of(view)),
      codes(view.codes.begin(), view.codes.end()),
      scale_type(view.scale_type),
      scales(values_of<std::uint16_t>(view.scales)),
      scale_codes(view.scale_codes.begin(), view.scale_codes.end()),
      row_scales(values_of<std::uint16_t>(view.row_scales)),
      zeros(view.zeros.begin(), view.zeros.end()),
      outlier_columns(view.outlier_columns.begin(), view.outlier_columns.end()),
      outlier_type(view.outlier_type),
      outlier_weights(values_of<std::uint16_t>(view.outlier_weights)) {}

std::size_t CodeMatrix::row_bytes() const {
  if (format.kind != Kind::kBlocks) return packed_row_bytes(cols, format.bits);
  const DTypeInfo& info = dtype_info(format.block_type);
  return cols / info.block_elements * info.block_bytes;
}

std::size_t CodeMatrix::group_size() const {
  return format.group_size == 0 ? cols : format.group_size;
}

QuantizedView CodeMatrix::view() const {
  return {.rows = rows,
          .cols = cols,
          .bits = format.bits,
          .codebook = format.codebook,
          .group_size = group_size(),
          .codes = codes,
          .scale_type = scale_type,
          .scales = std::as_bytes(std::span(scales)),
          .scale_codes = scale_codes,
          .row_scales = std::as_bytes(std::span(row_scales)),
          .zeros = zeros,
          .outlier_columns = outlier_columns,
          .outlier_type = outlier_type,
          .outlier_weights = std::as_bytes(std::span(outlier_weights))};
}

kernels::QuantizedMatrix CodeMatrix::packed() const {
  if (format.kind == Kind::kBlocks) return packed_blocks(*this);
  if (format.kind == Kind::kAffine) return packed_affine(*this);
  return kernels::QuantizedMatrix(view());
}

std::vector<float> CodeMatrix::decoded() const {
  std::vector<float> values(rows * cols);
  if (format.kind == Kind::kBlocks) {
    const std::size_t blocks = cols / dtype_info(format.block_type).block_elements;
    const std::span<const std::byte> bytes = std::as_bytes(std::span(codes));
#pragma omp parallel for
    for (std::size_t row = 0; row < rows; ++row) {
      decode_ggml_blocks(format.block_type, bytes.data() + row * row_bytes(), blocks, values.data() + row * cols);
    }
    return values;
  }
  const RowDecoder decoder(*this);
#pragma omp parallel for
  for (std::size_t row = 0; row < rows; ++row) decoder.decode(row, values.data() + row * cols);
  return values;
}

WeightFormat format_of(const QuantizedView& matrix) {
  return {.bits = matrix.bits,
          .codebook = matrix.codebook,
          .group_size = matrix.group_size,
          .symmetric = matrix.zeros.empty(),
          .scale_bits = matrix.row_scales.empty() ? 16 : 8};
}

void unpack_row(const QuantizedView& matrix, std::size_t row, std::span<std::uint8_t> codes) {
  kernels::unpack_codes(matrix.codes.data() + row * packed_row_bytes(matrix.cols, matrix.bits), matrix.bits, codes);
}

std::vector<float> group_scales(const QuantizedView& matrix, std::size_t row) {
  std::vector<float> scales(matrix.groups());
  kernels::to_float(matrix.scales.data() + row * scales.size() * sizeof(std::uint16_t),
                    scale_float_type(matrix.scale_type), scales.size(), scales.data());
  return scales;
}

std::vector<std::uint8_t> group_zeros(const QuantizedView& matrix, std::size_t row) {
  const int middle = matrix.codebook == CodebookId::kUniform ? 1 << (matrix.bits - 1) : kCodebookZero;
  std::vector<std::uint8_t> zeros(matrix.groups(), static_cast<std::uint8_t>(middle));
  if (matrix.zeros.empty()) return zeros;
  const std::size_t row_bytes = packed_row_bytes(zeros.size(), matrix.bits);
  kernels::unpack_codes(matrix.zeros.data() + row * row_bytes, matrix.bits, zeros);
  return zeros;
}

}  // namespace ballast::formats
