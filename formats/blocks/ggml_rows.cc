// ggml_blocks.cc documents the bytes of a block.
#include "formats/blocks/ggml_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "formats/blocks/block_fields.h"
#include "formats/blocks/block_tables.h"
#include "formats/blocks/ggml_blocks.h"
#include "formats/blocks/iq_lattice.h"

namespace ballast::formats {
namespace {

using kernels::CodeLayout;
using kernels::QuantizedRow;
using Offset = CodeLayout::Offset;
using Bytes = std::span<const std::uint8_t>;

constexpr std::uint16_t kSignOfHalf = 0x8000;
constexpr std::size_t kRoundedGroup = 32;

std::uint16_t bits_at(Bytes bytes, std::size_t at) {
  return u16_at(bytes.data() + at);
}

bool is_finite(std::uint16_t value, bool bf16) {
  const unsigned exponent = bf16 ? 0x7F80 : 0x7C00;
  return (value & exponent) != exponent;
}

/// Unpacks the 32 codes of 4 bits in 16 bytes: first the low halves, then the high ones.
void unpack_halves(Bytes nibbles, std::uint8_t* codes) {
  for (std::size_t i = 0; i < nibbles.size(); ++i) {
    codes[i] = nibbles[i] & 0x0F;
    codes[i + nibbles.size()] = nibbles[i] >> 4;
  }
}

void add_fifth_bits(Bytes bits, std::uint8_t* codes) {
  for (std::size_t i = 0; i < 8 * bits.size(); ++i) {
    codes[i] = static_cast<std::uint8_t>(codes[i] | ((bits[i / 8] >> i % 8) & 1) << 4);
  }
}

/// The contents of a type's blocks, and a function that writes block `index` into a row.
struct BlockRows {
  DType dtype;
  int bits;
  std::size_t group_size;
  Offset offset;
  std::size_t groups_of_scale;
  bool bf16_scales;
  void (*read)(Bytes block, std::size_t index, QuantizedRow& row);
};

void read_q8_0(Bytes block, std::size_t index, QuantizedRow& row) {
  constexpr unsigned kMiddle = 128;
  row.scales[index] = bits_at(block, 0);
  std::uint8_t* codes = row.codes.data() + 32 * index;
  for (std::size_t i = 0; i < 32; ++i) codes[i] = static_cast<std::uint8_t>(block[2 + i] + kMiddle);
}

void read_q4_0(Bytes block, std::size_t index, QuantizedRow& row) {
  row.scales[index] = bits_at(block, 0);
  unpack_halves(block.subspan(2, 16), row.codes.data() + 32 * index);
}

void read_q4_1(Bytes block, std::size_t index, QuantizedRow& row) {
  row.scales[index] = bits_at(block, 0);
  row.minimums[index] = bits_at(block, 2) ^ kSignOfHalf;  // the format adds the minimum
  unpack_halves(block.subspan(4, 16), row.codes.data() + 32 * index);
}

void read_q5_0(Bytes block, std::size_t index, QuantizedRow& row) {
  row.scales[index] = bits_at(block, 0);
  unpack_halves(block.subspan(6, 16), row.codes.data() + 32 * index);
  add_fifth_bits(block.subspan(2, 4), row.codes.data() + 32 * index);
}

void read_q5_1(Bytes block, std::size_t index, QuantizedRow& row) {
  row.scales[index] = bits_at(block, 0);
  row.minimums[index] = bits_at(block, 2) ^ kSignOfHalf;
  unpack_halves(block.subspan(8, 16), row.codes.data() + 32 * index);
  add_fifth_bits(block.subspan(4, 4), row.codes.data() + 32 * index);
}

/// Reads eight pairs of 6-bit factors from 12 bytes.
void read_pairs(Bytes packed, std::int8_t* factors, std::int8_t* minimum_factors) {
  for (std::size_t group = 0; group < 8; ++group) {
    const unsigned factor =
        group < 4 ? packed[group] & 0x3FU : (packed[group + 4] & 0x0FU) | (packed[group - 4] >> 6U) << 4U;
    const unsigned minimum =
        group < 4 ? packed[group + 4] & 0x3FU : (packed[group + 4] >> 4U) | (packed[group] >> 6U) << 4U;
    factors[group] = static_cast<std::int8_t>(factor);
    minimum_factors[group] = static_cast<std::int8_t>(minimum);
  }
}

/// Reads scales, factors and the low 4 bits of a Q4_K or Q5_K block.
void read_k_block(Bytes block, Bytes nibbles, std::size_t index, QuantizedRow& row) {
  row.scales[index] = bits_at(block, 0);
  row.minimums[index] = bits_at(block, 2);
  read_pairs(block.subspan(4, 12), row.factors.data() + 8 * index, row.minimum_factors.data() + 8 * index);
  for (std::size_t pair = 0; pair < 4; ++pair) {
    unpack_halves(nibbles.subspan(32 * pair, 32), row.codes.data() + 256 * index + 64 * pair);
  }
}

void read_q4_k(Bytes block, std::size_t index, QuantizedRow& row) {
  read_k_block(block, block.subspan(16, 128), index, row);
}

void read_q5_k(Bytes block, std::size_t index, QuantizedRow& row) {
  read_k_block(block, block.subspan(48, 128), index, row);
  std::uint8_t* codes = row.codes.data() + 256 * index;
  for (std::size_t i = 0; i < 256; ++i) {
    codes[i] = static_cast<std::uint8_t>(codes[i] | ((block[16 + i % 32] >> i / 32) & 1) << 4);
  }
}

void read_q6_k(Bytes block, std::size_t index, QuantizedRow& row) {
  row.scales[index] = bits_at(block, 208);
  std::memcpy(row.factors.data() + 16 * index, block.data() + 192, 16);
  std::uint8_t* codes = row.codes.data() + 256 * index;
  for (std::size_t half = 0; half < 2; ++half) {
    const Bytes high = block.subspan(128 + 32 * half, 32);
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint8_t low = block[64 * half + i];
      codes[128 * half + i] = static_cast<std::uint8_t>((low & 0x0F) | ((high[i % 32] >> i / 32 * 2) & 3) << 4);
      codes[128 * half + 64 + i] = static_cast<std::uint8_t>(low >> 4 | ((high[i % 32] >> (4 + i / 32 * 2)) & 3) << 4);
    }
  }
}

/// Returns a code of 2 bits from 64 bytes: each half of the block is four groups of 32, and bits 2g and 2g+1 of byte i
/// are element i of group g.
unsigned two_bits(Bytes bytes, std::size_t i) {
  return (bytes[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3U;
}

void read_q2_k(Bytes block, std::size_t index, QuantizedRow& row) {
  row.scales[index] = bits_at(block, 80);
  row.minimums[index] = bits_at(block, 82);
  for (std::size_t group = 0; group < 16; ++group) {
    row.factors[16 * index + group] = static_cast<std::int8_t>(block[group] & 0x0F);
    row.minimum_factors[16 * index + group] = static_cast<std::int8_t>(block[group] >> 4);
  }
  std::uint8_t* codes = row.codes.data() + 256 * index;
  for (std::size_t i = 0; i < 256; ++i) codes[i] = static_cast<std::uint8_t>(two_bits(block.subspan(16, 64), i));
}

void read_q3_k(Bytes block, std::size_t index, QuantizedRow& row) {
  constexpr unsigned kOfMiddle = 8 - 4;
  row.scales[index] = bits_at(block, 108);
  const Bytes packed = block.subspan(96, 12);
  for (std::size_t group = 0; group < 16; ++group) {
    const int low = (packed[group % 8] >> (group / 8 * 4)) & 0x0F;
    const int high = (packed[8 + group % 4] >> (group / 4 * 2)) & 3;
    row.factors[16 * index + group] = static_cast<std::int8_t>((low | high << 4) - 32);
  }
  std::uint8_t* codes = row.codes.data() + 256 * index;
  for (std::size_t i = 0; i < 256; ++i) {
    const unsigned third = (block[i % 32] >> (i / 32)) & 1U;
    codes[i] = static_cast<std::uint8_t>((two_bits(block.subspan(32, 64), i) | third << 2U) + kOfMiddle);
  }
}

/// Decodes 32 codes of 4 bits by a table, offset by `middle`.
void look_up(Bytes nibbles, const std::array<std::int8_t, 16>& table, int middle, std::uint8_t* codes) {
  unpack_halves(nibbles, codes);
  for (std::size_t i = 0; i < 32; ++i) codes[i] = static_cast<std::uint8_t>(table[codes[i]] + middle);
}

void read_iq4_nl(Bytes block, std::size_t index, QuantizedRow& row) {
  row.scales[index] = bits_at(block, 0);
  look_up(block.subspan(2, 16), kIq4Values, 128, row.codes.data() + 32 * index);
}

void read_iq4_xs(Bytes block, std::size_t index, QuantizedRow& row) {
  row.scales[index] = bits_at(block, 0);
  const unsigned high_bits = bits_at(block, 2);
  for (std::size_t group = 0; group < 8; ++group) {
    const unsigned low = (block[4 + group / 2] >> (group % 2 * 4)) & 0x0FU;
    const unsigned high = (high_bits >> (2 * group)) & 3U;
    row.factors[8 * index + group] = static_cast<std::int8_t>(static_cast<int>(low | high << 4U) - 32);
    look_up(block.subspan(8 + 16 * group, 16), kIq4Values, 128, row.codes.data() + 256 * index + 32 * group);
  }
}

/// The scale 2^(e - 128) is stored as BF16.
void read_mxfp4(Bytes block, std::size_t index, QuantizedRow& row) {
  constexpr unsigned kFractionBits = 7;
  const unsigned exponent = block[0];
  const unsigned scale = exponent >= 2 ? (exponent - 1) << kFractionBits : 1U << (kFractionBits - 2 + exponent);
  row.scales[index] = static_cast<std::uint16_t>(scale);
  look_up(block.subspan(1, 16), kTwiceE2M1, 16, row.codes.data() + 32 * index);
}

/// Decodes a block with its scale, an F16 at `scale_at`, replaced by 1.
std::array<float, 256> decode_unscaled(DType dtype, Bytes block, std::size_t scale_at) {
  constexpr std::uint16_t kOne = 0x3C00;
  constexpr std::size_t kMostBytes = 110;  // of these types
  assert(block.size() <= kMostBytes);
  std::array<std::byte, kMostBytes> unscaled{};
  std::memcpy(unscaled.data(), block.data(), block.size());
  std::memcpy(unscaled.data() + scale_at, &kOne, sizeof(kOne));
  std::array<float, 256> values;
  decode_ggml_blocks(dtype, unscaled.data(), 1, values.data());
  return values;
}

/// Reads the three values of a ternary block as codes around the middle.
template <DType kType, std::size_t kScaleAt>
void read_ternary(Bytes block, std::size_t index, QuantizedRow& row) {
  constexpr int kMiddle = 8;
  const std::array<float, 256> values = decode_unscaled(kType, block, kScaleAt);
  for (std::size_t i = 0; i < 256; ++i) {
    row.codes[256 * index + i] = static_cast<std::uint8_t>(static_cast<int>(values[i]) + kMiddle);
  }
  for (std::size_t group = 0; group < 8; ++group) row.scales[8 * index + group] = bits_at(block, kScaleAt);
}

/// Reads odd factors for 32 elements each, and odd values up to 15.
void read_iq3_s(Bytes block, std::size_t index, QuantizedRow& row) {
  constexpr int kMiddle = 16;
  row.scales[index] = bits_at(block, 0);
  const std::array<float, 256> values = decode_unscaled(DType::kIQ3_S, block, 0);
  for (std::size_t group = 0; group < 8; ++group) {
    const int factor = 1 + 2 * ((block[106 + group / 2] >> (group % 2 * 4)) & 0x0F);
    row.factors[8 * index + group] = static_cast<std::int8_t>(factor);
    for (std::size_t i = 32 * group; i < 32 * (group + 1); ++i) {
      row.codes[256 * index + i] = static_cast<std::uint8_t>(static_cast<int>(values[i]) / factor + kMiddle);
    }
  }
}

/// Returns the scale with this code as F16.
std::uint16_t nvfp4_scale_bits(std::uint8_t code) {
  static const std::array<std::uint16_t, kNvfp4Scales.size()> kBits = [] {
    std::array<std::uint16_t, kNvfp4Scales.size()> bits{};
    kernels::from_float(kNvfp4Scales.data(), bits.size(), kernels::FloatType::kF16, bits.data());
    return bits;
  }();
  return code == kNvfp4NotANumber ? std::uint16_t{0} : kBits[code & 0x7F];
}

void read_nvfp4(Bytes block, std::size_t index, QuantizedRow& row) {
  constexpr int kMiddle = 32;
  for (std::size_t group = 0; group < 4; ++group) {
    row.scales[4 * index + group] = nvfp4_scale_bits(block[group]);
    std::uint8_t* codes = row.codes.data() + 64 * index + 16 * group;
    unpack_halves(block.subspan(4 + 8 * group, 8), codes);
    for (std::size_t i = 0; i < 16; ++i) codes[i] = static_cast<std::uint8_t>(kTwiceE2M1[codes[i]] + kMiddle);
  }
}

constexpr std::array<BlockRows, 17> kBlockRows{{
    {DType::kQ8_0, 8, 32, Offset::kMiddle, 0, false, read_q8_0},
    {DType::kQ4_0, 4, 32, Offset::kMiddle, 0, false, read_q4_0},
    {DType::kQ4_1, 4, 32, Offset::kMinimums, 0, false, read_q4_1},
    {DType::kQ5_0, 5, 32, Offset::kMiddle, 0, false, read_q5_0},
    {DType::kQ5_1, 5, 32, Offset::kMinimums, 0, false, read_q5_1},
    {DType::kQ2_K, 4, 16, Offset::kMinimums, 16, false, read_q2_k},
    {DType::kQ3_K, 4, 16, Offset::kMiddle, 16, false, read_q3_k},
    {DType::kQ4_K, 4, 32, Offset::kMinimums, 8, false, read_q4_k},
    {DType::kQ5_K, 5, 32, Offset::kMinimums, 8, false, read_q5_k},
    {DType::kQ6_K, 6, 16, Offset::kMiddle, 16, false, read_q6_k},
    {DType::kIQ3_S, 5, 32, Offset::kMiddle, 8, false, read_iq3_s},
    {DType::kIQ4_NL, 8, 32, Offset::kMiddle, 0, false, read_iq4_nl},
    {DType::kIQ4_XS, 8, 32, Offset::kMiddle, 8, false, read_iq4_xs},
    {DType::kTQ1_0, 4, 32, Offset::kMiddle, 0, false, read_ternary<DType::kTQ1_0, 52>},
    {DType::kTQ2_0, 4, 32, Offset::kMiddle, 0, false, read_ternary<DType::kTQ2_0, 64>},
    {DType::kMXFP4, 5, 32, Offset::kMiddle, 0, true, read_mxfp4},
    {DType::kNVFP4, 6, 16, Offset::kMiddle, 0, false, read_nvfp4},
}};

const BlockRows* find_rows(DType dtype) {
  for (const BlockRows& rows : kBlockRows) {
    if (rows.dtype == dtype) return &rows;
  }
  return nullptr;
}

}  // namespace

std::optional<CodeLayout> block_layout(DType dtype, std::size_t rows, std::size_t cols) {
  const BlockRows* found = find_rows(dtype);
  if (found == nullptr) return {};
  return CodeLayout{.rows = rows,
                    .cols = cols,
                    .bits = found->bits,
                    .group_size = found->group_size,
                    .offset = found->offset,
                    .groups_of_scale = found->groups_of_scale,
                    .bf16_scales = found->bf16_scales,
                    .bf16_outliers = false,
                    .outlier_columns = {}};
}

CodeLayout written_layout(DType dtype, std::size_t cols) {
  const IqLattice* lattice = find_iq_lattice(dtype);
  return lattice == nullptr ? *block_layout(dtype, 1, cols) : iq_row_layout(*lattice, cols);
}

bool read_quantized_row(DType dtype, const std::byte* blocks, QuantizedRow& dst) {
  const BlockRows* rows = find_rows(dtype);
  assert(rows != nullptr);
  const DTypeInfo& info = dtype_info(dtype);
  for (std::size_t i = 0; i < dst.codes.size() / info.block_elements; ++i) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(blocks) + i * info.block_bytes;
    rows->read({bytes, info.block_bytes}, i, dst);
  }
  bool finite = true;
  for (const std::uint16_t scale : dst.scales) finite = finite && is_finite(scale, rows->bf16_scales);
  for (const std::uint16_t minimum : dst.minimums) finite = finite && is_finite(minimum, rows->bf16_scales);
  return finite;
}

CodeLayout rounded_layout(std::size_t rows, std::size_t cols) {
  // Uses BF16, because scales of weights with few bits may be too small for F16.
  return {.rows = rows,
          .cols = cols,
          .bits = 8,
          .group_size = kRoundedGroup,
          .offset = Offset::kMiddle,
          .groups_of_scale = 0,
          .bf16_scales = true,
          .bf16_outliers = false,
          .outlier_columns = {}};
}

bool round_row(DType dtype, const std::byte* blocks, QuantizedRow& dst) {
  constexpr float kLargestCode = 127;
  constexpr int kMiddle = 128;
  const std::size_t cols = dst.codes.size();
  std::vector<float> values(cols);
  decode_ggml_blocks(dtype, blocks, cols / dtype_info(dtype).block_elements, values.data());
  for (std::size_t group = 0; group < dst.scales.size(); ++group) {
    const std::size_t end = std::min(cols, (group + 1) * kRoundedGroup);
    float largest = 0;
    for (std::size_t i = group * kRoundedGroup; i < end; ++i) {
      if (!std::isfinite(values[i])) return false;
      largest = std::max(largest, std::abs(values[i]));
    }
    // Rounds the scale up, so that the largest value has a code.
    dst.scales[group] =
        static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(largest / kLargestCode) + 0xFFFFU) >> 16U);
    const auto scale = std::bit_cast<float>(std::uint32_t{dst.scales[group]} << 16U);
    for (std::size_t i = group * kRoundedGroup; i < end; ++i) {
      const float code = scale == 0 ? 0.0F : std::nearbyint(values[i] / scale);
      dst.codes[i] = static_cast<std::uint8_t>(static_cast<int>(code) + kMiddle);
    }
  }
  return true;
}

}  // namespace ballast::formats
