// ggml_blocks.cc says what a block's bytes mean.
#include "files/gguf/ggml_rows.h"

#include <array>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <span>

#include "files/gguf/block_fields.h"
#include "files/gguf/block_tables.h"

namespace ballast::files {
namespace {

using kernels::QuantizedForm;
using kernels::QuantizedRow;
using Offset = QuantizedForm::Offset;
using Bytes = std::span<const std::uint8_t>;

constexpr std::uint16_t kSignOfHalf = 0x8000;

std::uint16_t bits_at(Bytes bytes, std::size_t at) {
  return u16_at(bytes.data() + at);
}

bool is_finite(std::uint16_t value, bool bf16) {
  const unsigned exponent = bf16 ? 0x7F80 : 0x7C00;
  return (value & exponent) != exponent;
}

/// The 32 codes of 4 bits in 16 bytes: first the low halves, then the high ones.
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

/// What a type's blocks hold, and how the `index`th of them is written into a row.
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
  row.minimums[index] = bits_at(block, 2) ^ kSignOfHalf;  // there it is added
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

/// Eight pairs of 6-bit factors in 12 bytes.
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

/// Scales, factors and the low 4 bits of a Q4_K or Q5_K block.
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

/// Codes of 2 bits in 64 bytes: each half of the block is four groups of 32, and bits 2g and 2g+1 of byte i are element
/// i of group g.
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

/// 32 codes of 4 bits as places in a table of `middle` plus what they mean.
void look_up(Bytes nibbles, const std::array<std::int8_t, 16>& table, int middle, std::uint8_t* codes) {
  unpack_halves(nibbles, codes);
  for (std::size_t i = 0; i < 32; ++i) codes[i] = static_cast<std::uint8_t>(table[codes[i]] + middle);
}

void read_iq4_nl(Bytes block, std::size_t index, QuantizedRow& row) {
  row.scales[index] = bits_at(block, 0);
  look_up(block.subspan(2, 16), kNonlinearValues, 128, row.codes.data() + 32 * index);
}

void read_iq4_xs(Bytes block, std::size_t index, QuantizedRow& row) {
  row.scales[index] = bits_at(block, 0);
  const unsigned high_bits = bits_at(block, 2);
  for (std::size_t group = 0; group < 8; ++group) {
    const unsigned low = (block[4 + group / 2] >> (group % 2 * 4)) & 0x0FU;
    const unsigned high = (high_bits >> (2 * group)) & 3U;
    row.factors[8 * index + group] = static_cast<std::int8_t>(static_cast<int>(low | high << 4U) - 32);
    look_up(block.subspan(8 + 16 * group, 16), kNonlinearValues, 128, row.codes.data() + 256 * index + 32 * group);
  }
}

/// A scale of 2^(e - 128), as BF16.
void read_mxfp4(Bytes block, std::size_t index, QuantizedRow& row) {
  constexpr unsigned kFractionBits = 7;
  const unsigned exponent = block[0];
  const unsigned scale = exponent >= 2 ? (exponent - 1) << kFractionBits : 1U << (kFractionBits - 2 + exponent);
  row.scales[index] = static_cast<std::uint16_t>(scale);
  look_up(block.subspan(1, 16), kTwiceE2M1, 16, row.codes.data() + 32 * index);
}

constexpr std::array<BlockRows, 13> kBlockRows{{
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
    {DType::kIQ4_NL, 8, 32, Offset::kMiddle, 0, false, read_iq4_nl},
    {DType::kIQ4_XS, 8, 32, Offset::kMiddle, 8, false, read_iq4_xs},
    {DType::kMXFP4, 5, 32, Offset::kMiddle, 0, true, read_mxfp4},
}};

const BlockRows* find_rows(DType dtype) {
  for (const BlockRows& rows : kBlockRows) {
    if (rows.dtype == dtype) return &rows;
  }
  return nullptr;
}

}  // namespace

std::optional<QuantizedForm> quantized_form(DType dtype, std::size_t rows, std::size_t cols) {
  const BlockRows* found = find_rows(dtype);
  if (found == nullptr) return {};
  return QuantizedForm{.rows = rows,
                       .cols = cols,
                       .bits = found->bits,
                       .group_size = found->group_size,
                       .offset = found->offset,
                       .groups_of_scale = found->groups_of_scale,
                       .bf16_scales = found->bf16_scales,
                       .bf16_outliers = false,
                       .outlier_columns = {}};
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

}  // namespace ballast::files
