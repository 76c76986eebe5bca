#include "formats/codecs/mxfp4.h"

#include <array>
#include <cassert>
#include <cmath>

#include "ballast/error.h"

namespace ballast::formats {

namespace {

constexpr std::size_t kBlockBytes = kMxfp4BlockSize / 2;
constexpr int kExponentBias = 127;
constexpr int kNotANumber = 255;

// A code is a sign, two bits of exponent and one of mantissa.
constexpr std::array<float, 16> kValues = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                           -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

}  // namespace

void decode_mxfp4(std::span<const std::byte> blocks, std::span<const std::byte> scales, const std::string& context,
                  float* dst) {
  assert(blocks.size() == scales.size() * kBlockBytes);
  for (std::size_t block = 0; block < scales.size(); ++block) {
    const int exponent = std::to_integer<int>(scales[block]);
    if (exponent == kNotANumber) throw Error(context, "the scale of block " + std::to_string(block) + " is not finite");
    const float scale = std::ldexp(1.0F, exponent - kExponentBias);
    for (const std::byte pair : blocks.subspan(block * kBlockBytes, kBlockBytes)) {
      *dst++ = kValues[std::to_integer<std::size_t>(pair & std::byte{0x0f})] * scale;
      *dst++ = kValues[std::to_integer<std::size_t>(pair >> 4)] * scale;
    }
  }
}

}  // namespace ballast::formats
