#include "formats/blocks/iq_blocks.h"

#include <array>
#include <bit>
#include <cstddef>

#include "formats/blocks/block_fields.h"
#include "formats/blocks/iq_grids.h"

namespace ballast::formats {
namespace {

constexpr std::size_t kRuns = 8;  // of 32 elements in a block

using Signs = std::uint32_t;  // bit i is set if element i is negative

// Expands 7 bits to eight signs: the number of negative ones is even.
Signs even_signs(std::uint32_t seven_bits) {
  return seven_bits | (static_cast<std::uint32_t>(std::popcount(seven_bits)) & 1) << 7;
}

template <std::size_t kElements>
void signed_point(float scale, const std::array<std::int8_t, kElements>& point, Signs signs, float* dst) {
  for (std::size_t i = 0; i < kElements; ++i) dst[i] = scale * to_f((signs >> i) & 1 ? -point[i] : point[i]);
}

// Returns the scale of the 2-bit types; `code` has 4 bits.
float iq2_scale(float scale, std::uint32_t code) {
  return scale * (0.5f + to_f(static_cast<int>(code))) * 0.25f;
}

// Decodes IQ1: values -1, 0, 1 that are shifted by an eighth.
void shifted_point(float scale, std::size_t point, bool down, float* dst) {
  const float shift = down ? -0.125f : 0.125f;
  for (std::size_t i = 0; i < 8; ++i) dst[i] = scale * (to_f(kIq1Grid[point][i]) + shift);
}

float odd_scale(float scale, std::uint32_t code) {
  return scale * to_f(static_cast<int>(2 * code + 1));
}

}  // namespace

// scale, 32 bytes of low point bits, 8 words: four times 3 high point bits, 3 bits of scale, the shift's sign
void decode_iq1_s(const std::uint8_t* src, float* dst) {
  const float scale = half_at(src);
  for (std::size_t run = 0; run < kRuns; ++run) {
    const std::uint32_t word = u16_at(src + 34 + 2 * run);
    const float run_scale = odd_scale(scale, (word >> 12) & 7);
    for (std::size_t part = 0; part < 4; ++part) {
      const std::size_t point = src[2 + 4 * run + part] | ((word >> (3 * part)) & 7) << 8;
      shifted_point(run_scale, point, (word & 0x8000) != 0, dst + 32 * run + 8 * part);
    }
  }
}

// 32 bytes of low point bits, 16 bytes of nibbles (3 high point bits and the shift's sign), 4 words: each four scales
// of 3 bits, one for 16 elements, and a quarter of the block's scale, lowest first
void decode_iq1_m(const std::uint8_t* src, float* dst) {
  const std::uint8_t* nibbles = src + 32;
  const std::uint8_t* words = src + 48;
  std::uint16_t half = 0;
  for (std::size_t i = 0; i < 4; ++i)
    half = static_cast<std::uint16_t>(half | (u16_at(words + 2 * i) >> 12) << (4 * i));
  const float scale = half_at(&half);
  for (std::size_t part = 0; part < 32; ++part) {
    const std::uint32_t nibble = static_cast<std::uint32_t>(nibbles[part / 2] >> (4 * (part % 2)));
    const std::size_t pair = part / 2;
    const std::uint32_t scale_code = static_cast<std::uint32_t>(u16_at(words + 2 * (pair / 4)) >> (3 * (pair % 4))) & 7;
    shifted_point(odd_scale(scale, scale_code), src[part] | (nibble & 7) << 8, (nibble & 8) != 0, dst + 8 * part);
  }
}

// scale, for each run 4 bytes of points and a word: four times 7 bits of signs, 4 bits of scale
void decode_iq2_xxs(const std::uint8_t* src, float* dst) {
  const float scale = half_at(src);
  for (std::size_t run = 0; run < kRuns; ++run) {
    const std::uint8_t* points = src + 2 + 8 * run;
    const std::uint32_t word = u32_at(points + 4);
    const float run_scale = iq2_scale(scale, word >> 28);
    for (std::size_t part = 0; part < 4; ++part) {
      const Signs signs = even_signs((word >> (7 * part)) & 0x7F);
      signed_point(run_scale, kIq2XxsGrid[points[part]], signs, dst + 32 * run + 8 * part);
    }
  }
}

// scale, 32 words of 9 bits of point and 7 bits of signs, 8 bytes: two scales of 4 bits, one for 16 elements
void decode_iq2_xs(const std::uint8_t* src, float* dst) {
  const float scale = half_at(src);
  for (std::size_t part = 0; part < 32; ++part) {
    const std::uint32_t word = u16_at(src + 2 + 2 * part);
    const std::uint32_t scale_code = static_cast<std::uint32_t>(src[66 + part / 4] >> (part % 4 / 2 * 4)) & 0x0F;
    signed_point(iq2_scale(scale, scale_code), kIq2XsGrid[word & 511], even_signs(word >> 9), dst + 8 * part);
  }
}

// scale, 32 bytes of low point bits, 32 bytes of signs, 8 bytes of four times 2 high point bits, 8 bytes of scales
void decode_iq2_s(const std::uint8_t* src, float* dst) {
  const float scale = half_at(src);
  for (std::size_t part = 0; part < 32; ++part) {
    const std::uint32_t high = static_cast<std::uint32_t>(src[66 + part / 4] >> (2 * (part % 4))) & 3;
    const std::uint32_t scale_code = static_cast<std::uint32_t>(src[74 + part / 4] >> (part % 4 / 2 * 4)) & 0x0F;
    signed_point(iq2_scale(scale, scale_code), kIq2SGrid[src[2 + part] | high << 8], src[34 + part], dst + 8 * part);
  }
}

// scale, 64 bytes of points of 4 elements, for each run a word: four times 7 bits of signs, 4 bits of scale
void decode_iq3_xxs(const std::uint8_t* src, float* dst) {
  const float scale = half_at(src);
  for (std::size_t run = 0; run < kRuns; ++run) {
    const std::uint32_t word = u32_at(src + 66 + 4 * run);
    const float run_scale = scale * (0.5f + to_f(static_cast<int>(word >> 28))) * 0.5f;
    for (std::size_t part = 0; part < 8; ++part) {
      const Signs signs = even_signs((word >> (part / 2 * 7)) & 0x7F) >> (part % 2 * 4);
      signed_point(run_scale, kIq3XxsGrid[src[2 + 8 * run + part]], signs, dst + 32 * run + 4 * part);
    }
  }
}

// scale, 64 bytes of low point bits, 8 bytes of ninth bits, 32 bytes of signs, 4 bytes of scales, one for 32 elements
void decode_iq3_s(const std::uint8_t* src, float* dst) {
  const float scale = half_at(src);
  for (std::size_t part = 0; part < 64; ++part) {
    const std::uint32_t ninth = static_cast<std::uint32_t>(src[66 + part / 8] >> (part % 8)) & 1;
    const Signs signs = static_cast<Signs>(src[74 + part / 2] >> (part % 2 * 4));
    const std::uint32_t scale_code = static_cast<std::uint32_t>(src[106 + part / 16] >> (part / 8 % 2 * 4)) & 0x0F;
    signed_point(odd_scale(scale, scale_code), kIq3SGrid[src[2 + part] | ninth << 8], signs, dst + 4 * part);
  }
}

}  // namespace ballast::formats
