// The weights of a linear layer in the layout of ballast's files, which docs/format.md specifies.
#ifndef BALLAST_QUANTIZED_H_
#define BALLAST_QUANTIZED_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "ballast/codebooks.h"
#include "ballast/tensor.h"

namespace ballast {

/// Returns the bytes of one row of `count` codes of `bits` bits (2 to 8): one string of bits, the first code lowest.
constexpr std::size_t packed_row_bytes(std::size_t count, int bits) {
  return (count * static_cast<std::size_t>(bits) + 7) / 8;
}

/// View of a quantized matrix [rows = outputs, cols = inputs]:
///     w[r][c] = (code[r][c] - zero[r][c / group_size]) * scale[r][c / group_size]
/// or, with a codebook, codebook(id).values[code[r][c]] * scale[r][c / group_size].
/// Codes are unsigned. Symmetric matrices have no `zeros`: their zero point is 2^(bits-1), which is also the index of
/// every codebook's 0. A group whose scale is 0 is all zero. The last group of a row may be short. The codes of an
/// outlier column equal the zero point, so that it decodes to 0 here; its weights are in `outlier_weights` at 16 bits.
struct QuantizedView {
  std::size_t rows = 0;
  std::size_t cols = 0;
  int bits = 8;                                   ///< 4, 5, 6 or 8; with a codebook, the codebook's
  CodebookId codebook = CodebookId::kUniform;     ///< others are symmetric
  std::size_t group_size = 0;                     ///< columns that share a scale; `cols` for one scale per row
  std::span<const std::uint8_t> codes;            ///< [rows][packed_row_bytes(cols, bits)]
  DType scale_type = DType::kF16;                 ///< kF16 or kBF16
  std::span<const std::byte> scales;              ///< [rows][groups()]
  std::span<const std::uint8_t> scale_codes;      ///< 8-bit scales: [rows][groups()], the stored form of `scales`
  std::span<const std::byte> row_scales;          ///< 8-bit scales: [rows] in scale_type
  std::span<const std::uint8_t> zeros;            ///< [rows][packed_row_bytes(groups(), bits)], empty when symmetric
  std::span<const std::int32_t> outlier_columns;  ///< ascending
  DType outlier_type = DType::kF16;               ///< kF16 or kBF16
  std::span<const std::byte> outlier_weights;     ///< [rows][outlier_columns.size()]

  std::size_t groups() const { return (cols + group_size - 1) / group_size; }
};

}  // namespace ballast

#endif  // BALLAST_QUANTIZED_H_
