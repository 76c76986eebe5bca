// Scales of 8 bits: a matrix's groups have codes that divide the 16-bit scale of their row. docs/format.md specifies
// them. Two levels of scales as in llama.cpp's k-quants and VS-Quant (Dai et al. 2021, arXiv:2102.04503).
#ifndef BALLAST_FORMATS_SCALE_CODES_H_
#define BALLAST_FORMATS_SCALE_CODES_H_

#include <cstdint>
#include <span>

#include "ballast/tensor.h"
#include "kernels/matrix/float_matrix.h"

namespace ballast::formats {

/// What scale codes may be.
enum class ScaleCodes {
  kUnsigned,  ///< 0 to 255
  kSigned     ///< -128 to 127, of formats with a codebook
};

/// A group's scale is row_scale * code / scale_codes(kind). So a row scale is as large as a scale, and where the scales
/// of a matrix keep their digits in 16 bits its row scales do, too.
constexpr int scale_codes(ScaleCodes kind) {
  return kind == ScaleCodes::kSigned ? 128 : 256;
}

/// The kernels' name of a 16-bit type of scales, kF16 or kBF16.
constexpr kernels::FloatType scale_float_type(DType type) {
  return type == DType::kF16 ? kernels::FloatType::kF16 : kernels::FloatType::kBF16;
}

/// scales[i] = row_scale * codes[i] / scale_codes(kind), rounded to `type` (kF16 or kBF16), which row_scale has, too.
/// The product is exact in F32, so every reader comes to the same bits.
void decode_scales(std::uint16_t row_scale, std::span<const std::uint8_t> codes, ScaleCodes kind, DType type,
                   std::span<std::uint16_t> scales);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_SCALE_CODES_H_
