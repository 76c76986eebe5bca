#include "formats/blocks/ggml_blocks.h"

#include <array>
#include <cassert>
#include <cmath>
#include <cstdint>

#include "formats/blocks/block_fields.h"
#include "formats/blocks/block_tables.h"
#include "formats/blocks/iq_blocks.h"

namespace ballast::formats {
namespace {

constexpr std::size_t kSmall = 32;  // elements of a Q*_0 or Q*_1 block

// scale, 32 signed bytes
void decode_q8_0(const std::uint8_t* src, float* dst) {
  const float scale = half_at(src);
  for (std::size_t i = 0; i < kSmall; ++i) dst[i] = scale * to_f(static_cast<std::int8_t>(src[2 + i]));
}

// A block's 32 codes of 4 or 5 bits: byte i holds element i low and element i + 16 high; `high_bits` holds each
// element's fifth bit.
template <typename Value>
void for_each_code(const std::uint8_t* nibbles, std::uint32_t high_bits, float* dst, Value value) {
  for (std::size_t i = 0; i < kSmall / 2; ++i) {
    const int low = (nibbles[i] & 0x0F) | static_cast<int>((high_bits >> i) & 1) << 4;
    const int high = (nibbles[i] >> 4) | static_cast<int>((high_bits >> (i + kSmall / 2)) & 1) << 4;
    dst[i] = value(low);
    dst[i + kSmall / 2] = value(high);
  }
}

// scale, 16 bytes of nibbles; codes are offset by 8
void decode_q4_0(const std::uint8_t* src, float* dst) {
  const float scale = half_at(src);
  for_each_code(src + 2, 0, dst, [scale](int code) { return scale * to_f(code - 8); });
}

// scale, minimum, 16 bytes of nibbles
void decode_q4_1(const std::uint8_t* src, float* dst) {
  const float scale = half_at(src);
  const float minimum = half_at(src + 2);
  for_each_code(src + 4, 0, dst, [=](int code) { return scale * to_f(code) + minimum; });
}

// scale, 4 bytes of fifth bits, 16 bytes of nibbles; codes are offset by 16
void decode_q5_0(const std::uint8_t* src, float* dst) {
  const float scale = half_at(src);
  for_each_code(src + 6, u32_at(src + 2), dst, [scale](int code) { return scale * to_f(code - 16); });
}

// scale, minimum, 4 bytes of fifth bits, 16 bytes of nibbles
void decode_q5_1(const std::uint8_t* src, float* dst) {
  const float scale = half_at(src);
  const float minimum = half_at(src + 2);
  for_each_code(src + 8, u32_at(src + 4), dst, [=](int code) { return scale * to_f(code) + minimum; });
}

// 16 bytes of pairs of 4 bits (scale low, minimum high), one for 16 elements, 64 bytes of codes of 2 bits, scale of
// scales, scale of minima. Each half of the block is four groups of 32: bits 2g and 2g+1 of byte i are element i of
// group g.
void decode_q2_k(const std::uint8_t* src, float* dst) {
  const float scale = half_at(src + 80);
  const float minimum_scale = half_at(src + 82);
  for (std::size_t i = 0; i < 256; ++i) {
    const std::uint8_t pair = src[i / 16];
    const int code = (src[16 + i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
    dst[i] = scale * to_f(pair & 0x0F) * to_f(code) - minimum_scale * to_f(pair >> 4);
  }
}

// Sixteen 6-bit numbers in 12 bytes: their low four bits as nibbles of bytes 0-7 (first the low ones), the top two in
// bytes 8-11, four to a byte.
int unpack_q3_scale(const std::uint8_t* packed, std::size_t index) {
  const int low = (packed[index % 8] >> (index / 8 * 4)) & 0x0F;
  return low | ((packed[8 + index % 4] >> (index / 4 * 2)) & 3) << 4;
}

// 32 bytes of third bits, 64 bytes of low pairs of bits as in Q2_K, 12 bytes of scales with an offset of 32, scale of
// scales. Bit g of third-bit byte i belongs to element i of group g; codes are offset by 4.
void decode_q3_k(const std::uint8_t* src, float* dst) {
  const float scale = half_at(src + 108);
  for (std::size_t i = 0; i < 256; ++i) {
    const int low = (src[32 + i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
    const int third = (src[i % 32] >> (i / 32)) & 1;
    dst[i] = scale * to_f(unpack_q3_scale(src + 96, i / 16) - 32) * to_f((low | third << 2) - 4);
  }
}

struct ScaleAndMinimum {
  int scale;
  int minimum;
};

// Eight pairs of 6-bit numbers in 12 bytes: the first four pairs whole in the low bits of bytes 0-3 and 4-7, the others
// as nibbles of bytes 8-11 with their top two bits above the first four.
ScaleAndMinimum unpack_pair(const std::uint8_t* packed, std::size_t group) {
  if (group < 4) return {packed[group] & 0x3F, packed[group + 4] & 0x3F};
  return {(packed[group + 4] & 0x0F) | ((packed[group - 4] >> 6) << 4),
          (packed[group + 4] >> 4) | ((packed[group] >> 6) << 4)};
}

// scale of scales, scale of minima, 12 bytes of pairs, for Q5_K 32 bytes of fifth bits, 128 bytes of nibbles. Eight
// groups of 32: each 32 bytes of nibbles hold an even group low and the odd one after it high; bit g of fifth-bit byte
// i belongs to element i of group g.
void decode_q4_or_q5_k(const std::uint8_t* src, bool has_fifth_bits, float* dst) {
  const float scale = half_at(src);
  const float minimum_scale = half_at(src + 2);
  const std::uint8_t* pairs = src + 4;
  const std::uint8_t* fifth = src + 16;
  const std::uint8_t* nibbles = has_fifth_bits ? src + 48 : src + 16;
  for (std::size_t group = 0; group < 8; ++group) {
    const ScaleAndMinimum pair = unpack_pair(pairs, group);
    const float group_scale = scale * to_f(pair.scale);
    const float minimum = minimum_scale * to_f(pair.minimum);
    const std::uint8_t* group_nibbles = nibbles + group / 2 * 32;
    for (std::size_t i = 0; i < 32; ++i) {
      int code = group % 2 == 0 ? group_nibbles[i] & 0x0F : group_nibbles[i] >> 4;
      if (has_fifth_bits) code |= ((fifth[i] >> group) & 1) << 4;
      dst[group * 32 + i] = group_scale * to_f(code) - minimum;
    }
  }
}

void decode_q4_k(const std::uint8_t* src, float* dst) {
  decode_q4_or_q5_k(src, false, dst);
}

void decode_q5_k(const std::uint8_t* src, float* dst) {
  decode_q4_or_q5_k(src, true, dst);
}

// 128 bytes of low nibbles, 64 bytes of high pairs of bits, 16 signed scales, scale of scales. Each half of the block
// is four groups of 32: nibble bytes 0-31 hold groups 0 (low) and 2 (high), bytes 32-63 groups 1 and 3; bits 2g and
// 2g+1 of high byte i belong to element i of group g. A scale covers 16 elements; codes are offset by 32.
void decode_q6_k(const std::uint8_t* src, float* dst) {
  const float scale = half_at(src + 208);
  for (std::size_t half = 0; half < 2; ++half) {
    const std::uint8_t* nibbles = src + half * 64;
    const std::uint8_t* high = src + 128 + half * 32;
    const std::uint8_t* scales = src + 192 + half * 8;
    for (std::size_t group = 0; group < 4; ++group) {
      for (std::size_t i = 0; i < 32; ++i) {
        const std::uint8_t byte = nibbles[group % 2 * 32 + i];
        const int code = (group < 2 ? byte & 0x0F : byte >> 4) | ((high[i] >> (2 * group)) & 3) << 4;
        const float group_scale = scale * to_f(static_cast<std::int8_t>(scales[group * 2 + i / 16]));
        dst[half * 128 + group * 32 + i] = group_scale * to_f(code - 32);
      }
    }
  }
}

// scale, 16 bytes of nibbles
void decode_iq4_nl(const std::uint8_t* src, float* dst) {
  const float scale = half_at(src);
  for_each_code(src + 2, 0, dst, [scale](int code) { return scale * to_f(kIq4Values[code]); });
}

// scale of scales, 2 bytes of the scales' top two bits, 4 bytes of their nibbles, 128 bytes of nibbles in eight groups
// as in IQ4_NL; scales are offset by 32
void decode_iq4_xs(const std::uint8_t* src, float* dst) {
  const float scale = half_at(src);
  for (std::size_t group = 0; group < 8; ++group) {
    const int low = (src[4 + group / 2] >> (group % 2 * 4)) & 0x0F;
    const int high = (u16_at(src + 2) >> (2 * group)) & 3;
    const float group_scale = scale * to_f((low | high << 4) - 32);
    for_each_code(src + 8 + 16 * group, 0, dst + 32 * group,
                  [group_scale](int code) { return group_scale * to_f(kIq4Values[code]); });
  }
}

// Five values of -1, 0, 1 in a byte are the digits of a fraction in base 3: a digit is the integer part after
// multiplying by three. `width` bytes hold digit d of their elements d * width to (d + 1) * width.
void decode_ternary_digits(const std::uint8_t* src, std::size_t width, std::size_t digits, float scale, float* dst) {
  for (std::size_t i = 0; i < width; ++i) {
    std::uint8_t fraction = src[i];
    for (std::size_t digit = 0; digit < digits; ++digit) {
      dst[digit * width + i] = scale * to_f(((fraction * 3) >> 8) - 1);
      fraction = static_cast<std::uint8_t>(fraction * 3);
    }
  }
}

// 32 and 16 bytes of five values, 4 bytes of four, scale
void decode_tq1_0(const std::uint8_t* src, float* dst) {
  const float scale = half_at(src + 52);
  decode_ternary_digits(src, 32, 5, scale, dst);
  decode_ternary_digits(src + 32, 16, 5, scale, dst + 160);
  decode_ternary_digits(src + 48, 4, 4, scale, dst + 240);
}

// 64 bytes of codes of 2 bits as in Q2_K, scale; codes are offset by 1
void decode_tq2_0(const std::uint8_t* src, float* dst) {
  const float scale = half_at(src + 64);
  for (std::size_t i = 0; i < 256; ++i) {
    const int code = (src[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
    dst[i] = scale * to_f(code - 1);
  }
}

// exponent, 16 bytes of nibbles
void decode_mxfp4(const std::uint8_t* src, float* dst) {
  const float half_scale = std::ldexp(1.0f, src[0] - 128);
  for_each_code(src + 1, 0, dst, [half_scale](int code) { return half_scale * to_f(kTwiceE2M1[code]); });
}

// 4 scales, each with 8 bytes of nibbles for 16 elements: byte i holds element i low and element i + 8 high
void decode_nvfp4(const std::uint8_t* src, float* dst) {
  for (std::size_t group = 0; group < 4; ++group) {
    const float half_scale = src[group] == kNvfp4NotANumber ? 0 : kNvfp4Scales[src[group] & 0x7F];
    for (std::size_t i = 0; i < 8; ++i) {
      const std::uint8_t pair = src[4 + 8 * group + i];
      dst[16 * group + i] = half_scale * to_f(kTwiceE2M1[pair & 0x0F]);
      dst[16 * group + 8 + i] = half_scale * to_f(kTwiceE2M1[pair >> 4]);
    }
  }
}

using BlockDecoder = void (*)(const std::uint8_t* src, float* dst);

BlockDecoder decoder_of(DType dtype) {
  switch (dtype) {
    case DType::kQ8_0:
      return decode_q8_0;
    case DType::kQ4_0:
      return decode_q4_0;
    case DType::kQ4_1:
      return decode_q4_1;
    case DType::kQ5_0:
      return decode_q5_0;
    case DType::kQ5_1:
      return decode_q5_1;
    case DType::kQ2_K:
      return decode_q2_k;
    case DType::kQ3_K:
      return decode_q3_k;
    case DType::kQ4_K:
      return decode_q4_k;
    case DType::kQ5_K:
      return decode_q5_k;
    case DType::kQ6_K:
      return decode_q6_k;
    case DType::kIQ1_S:
      return decode_iq1_s;
    case DType::kIQ1_M:
      return decode_iq1_m;
    case DType::kIQ2_XXS:
      return decode_iq2_xxs;
    case DType::kIQ2_XS:
      return decode_iq2_xs;
    case DType::kIQ2_S:
      return decode_iq2_s;
    case DType::kIQ3_XXS:
      return decode_iq3_xxs;
    case DType::kIQ3_S:
      return decode_iq3_s;
    case DType::kIQ4_NL:
      return decode_iq4_nl;
    case DType::kIQ4_XS:
      return decode_iq4_xs;
    case DType::kTQ1_0:
      return decode_tq1_0;
    case DType::kTQ2_0:
      return decode_tq2_0;
    case DType::kMXFP4:
      return decode_mxfp4;
    case DType::kNVFP4:
      return decode_nvfp4;
    default:
      assert(false && "a type of blocks");
      return nullptr;
  }
}

}  // namespace

void decode_ggml_blocks(DType dtype, const std::byte* src, std::size_t blocks, float* dst) {
  const DTypeInfo& info = dtype_info(dtype);
  const BlockDecoder decode = decoder_of(dtype);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(src);
  for (std::size_t block = 0; block < blocks; ++block) {
    decode(bytes + block * info.block_bytes, dst + block * info.block_elements);
  }
}

}  // namespace ballast::formats
