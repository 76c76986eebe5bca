#include "formats/codecs/mxfp4.h"

#include <cassert>
#include <cmath>

#include "ballast/error.h"
#include "formats/codecs/float4.h"

namespace ballast::formats {

namespace {

constexpr std::size_t kBlockBytes = kMxfp4BlockSize / 2;
constexpr int kExponentBias = 127;
constexpr int kNotANumber = 255;

}  // namespace

void decode_mxfp4(std::span<const std::byte> blocks, std::span<const std::byte> scales, const std::string& context,
                  float* dst) {
  assert(blocks.size() == scales.size() * kBlockBytes);
  for (std::size_t block = 0; block < scales.size(); ++block) {
    const int exponent = std::to_integer<int>(scales[block]);
    if (exponent == kNotANumber) throw Error(context, "the scale of block " + std::to_string(block) + " is not finite");
    decode_float4(blocks.subspan(block * kBlockBytes, kBlockBytes), std::ldexp(1.0F, exponent - kExponentBias),
                  dst + block * kMxfp4BlockSize);
  }
}

}  // namespace ballast::formats
