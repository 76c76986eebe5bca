// Scales of 8 bits: the groups of a matrix have codes that are multiplied by a 16-bit scale of their row.
// docs/format.md specifies them. Two levels of scales are also in llama.cpp's k-quants and VS-Quant (Dai et al. 2021,
// arXiv:2102.04503).
#ifndef BALLAST_FORMATS_SCALE_CODES_H_
#define BALLAST_FORMATS_SCALE_CODES_H_

#include <cstdint>
#include <span>

#include "ballast/tensor.h"
#include "kernels/matrix/float_matrix.h"

namespace ballast::formats {

/// The range of scale codes.
enum class ScaleCodes {
  kUnsigned,  ///< 0 to 255
  kSigned     ///< -128 to 127, for formats with a codebook
};

/// A group's scale is row_scale * code / scale_codes(kind). So a row scale has the magnitude of a scale: if 16 bits
/// suffice for the scales of a matrix, they suffice for its row scales.
constexpr int scale_codes(ScaleCodes kind) {
  return kind == ScaleCodes::kSigned ? 128 : 256;
}

/// Returns the kernels' type for 16-bit scales of type kF16 or kBF16.
constexpr kernels::FloatType scale_float_type(DType type) {
  return type == DType::kF16 ? kernels::FloatType::kF16 : kernels::FloatType::kBF16;
}

/// Stores scales[i] = row_scale * codes[i] / scale_codes(kind), rounded to `type` (kF16 or kBF16), which is also the
/// type of row_scale. The product is exact in F32, so every reader gets the same bits.
void decode_scales(std::uint16_t row_scale, std::span<const std::uint8_t> codes, ScaleCodes kind, DType type,
                   std::span<std::uint16_t> scales);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_SCALE_CODES_H_
