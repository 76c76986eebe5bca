#include "formats/scale_codes.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace ballast::formats {

void decode_scales(std::uint16_t row_scale, std::span<const std::uint8_t> codes, ScaleCodes kind, DType type,
                   std::span<std::uint16_t> scales) {
  const kernels::FloatType float_type = scale_float_type(type);
  float step = 0;
  kernels::to_float(&row_scale, float_type, 1, &step);
  step /= static_cast<float>(scale_codes(kind));
  std::array<float, 64> products{};
  for (std::size_t begin = 0; begin < codes.size(); begin += products.size()) {
    const std::size_t count = std::min(products.size(), codes.size() - begin);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint8_t code = codes[begin + i];
      products[i] = step * static_cast<float>(kind == ScaleCodes::kSigned ? static_cast<std::int8_t>(code) : code);
    }
    kernels::from_float(products.data(), count, float_type, scales.data() + begin);
  }
}

}  // namespace ballast::formats
