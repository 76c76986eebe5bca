#include "files/gguf/ggml_blocks.h"

#include <cassert>
#include <cstdint>
#include <cstring>

#include "kernels/matrix/float_matrix.h"

namespace ballast::files {
namespace {

constexpr std::size_t kSmall = 32;   // elements of a Q*_0 or Q*_1 block
constexpr std::size_t kLarge = 256;  // elements of a Q*_K block

float half_at(const std::uint8_t* src) {
  float value = 0;
  kernels::to_float(src, kernels::FloatType::kF16, 1, &value);
  return value;
}

float to_f(int value) {
  return static_cast<float>(value);
}

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

std::uint32_t fifth_bits(const std::uint8_t* src) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, src, sizeof(bits));
  return bits;
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
  for_each_code(src + 6, fifth_bits(src + 2), dst, [scale](int code) { return scale * to_f(code - 16); });
}

// scale, minimum, 4 bytes of fifth bits, 16 bytes of nibbles
void decode_q5_1(const std::uint8_t* src, float* dst) {
  const float scale = half_at(src);
  const float minimum = half_at(src + 2);
  for_each_code(src + 8, fifth_bits(src + 4), dst, [=](int code) { return scale * to_f(code) + minimum; });
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

void decode_block(DType dtype, const std::uint8_t* src, float* dst) {
  switch (dtype) {
    case DType::kQ8_0:
      return decode_q8_0(src, dst);
    case DType::kQ4_0:
      return decode_q4_0(src, dst);
    case DType::kQ4_1:
      return decode_q4_1(src, dst);
    case DType::kQ5_0:
      return decode_q5_0(src, dst);
    case DType::kQ5_1:
      return decode_q5_1(src, dst);
    case DType::kQ4_K:
      return decode_q4_or_q5_k(src, false, dst);
    case DType::kQ5_K:
      return decode_q4_or_q5_k(src, true, dst);
    case DType::kQ6_K:
      return decode_q6_k(src, dst);
    default:
      assert(false && "a type of blocks");
  }
}

}  // namespace

void decode_ggml_blocks(DType dtype, const std::byte* src, std::size_t blocks, float* dst) {
  const DTypeInfo& info = dtype_info(dtype);
  assert(info.block_elements == kSmall || info.block_elements == kLarge);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(src);
  for (std::size_t block = 0; block < blocks; ++block) {
    decode_block(dtype, bytes + block * info.block_bytes, dst + block * info.block_elements);
  }
}

}  // namespace ballast::files
