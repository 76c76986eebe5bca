#include "quant/rounding/scales/shared_scales.h"

#include <algorithm>
#include <cstddef>

#include "kernels/matrix/float_matrix.h"
#include "quant/rounding/grids/half_float.h"

namespace ballast::quant {

SharedScales::SharedScales(formats::ScaleCodes kind, DType type, float largest) : row_scale_(0) {
  const int count = formats::scale_codes(kind);
  const float wanted = largest * static_cast<float>(count) / static_cast<float>(count - 1);
  row_scale_ = half_bits(wanted, type);
  // One up where it was rounded down, so that the highest code reaches the largest scale.
  if (from_half(row_scale_, type) < wanted) ++row_scale_;

  std::vector<std::uint8_t> codes(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i);
  std::vector<std::uint16_t> bits(codes.size());
  formats::decode_scales(row_scale_, codes, kind, type, bits);
  scales_.resize(codes.size());
  kernels::to_float(bits.data(), formats::scale_float_type(type), bits.size(), scales_.data());
}

int SharedScales::code_from(float scale) const {
  const auto above = std::ranges::lower_bound(scales_, scale);
  return static_cast<int>(std::min<std::ptrdiff_t>(above - scales_.begin(), top_code()));
}

}  // namespace ballast::quant
