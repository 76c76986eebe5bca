// ggml_blocks.cc documents the bytes of a block; ggml_rows.cc reads the rows written here.
#include "formats/blocks/ggml_row_writer.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <span>

#include "formats/blocks/block_fields.h"
#include "formats/blocks/block_tables.h"
#include "formats/blocks/iq_lattice.h"

namespace ballast::formats {
namespace {

using kernels::QuantizedRow;
using BlockBytes = std::span<std::uint8_t>;

constexpr std::uint16_t kHalfSign = 0x8000;

void put_u16(std::uint16_t value, BlockBytes block, std::size_t at) {
  std::memcpy(block.data() + at, &value, sizeof(value));
}

/// Packs the low 4 bits of 2n codes into n bytes: first the low halves, then the high ones.
void pack_halves(const std::uint8_t* codes, BlockBytes nibbles) {
  for (std::size_t i = 0; i < nibbles.size(); ++i) {
    nibbles[i] = static_cast<std::uint8_t>((codes[i] & 0x0F) | codes[i + nibbles.size()] << 4);
  }
}

void pack_fifth_bits(const std::uint8_t* codes, BlockBytes bits) {
  for (std::size_t i = 0; i < 8 * bits.size(); ++i) {
    bits[i / 8] = static_cast<std::uint8_t>(bits[i / 8] | ((codes[i] >> 4) & 1) << i % 8);
  }
}

void write_q8_0(const QuantizedRow& row, std::size_t index, BlockBytes block) {
  constexpr unsigned kMiddle = 128;
  put_u16(row.scales[index], block, 0);
  for (std::size_t i = 0; i < 32; ++i) block[2 + i] = static_cast<std::uint8_t>(row.codes[32 * index + i] - kMiddle);
}

void write_q4_0(const QuantizedRow& row, std::size_t index, BlockBytes block) {
  put_u16(row.scales[index], block, 0);
  pack_halves(row.codes.data() + 32 * index, block.subspan(2, 16));
}

void write_q4_1(const QuantizedRow& row, std::size_t index, BlockBytes block) {
  put_u16(row.scales[index], block, 0);
  put_u16(row.minimums[index] ^ kHalfSign, block, 2);  // the format adds the minimum
  pack_halves(row.codes.data() + 32 * index, block.subspan(4, 16));
}

void write_q5_0(const QuantizedRow& row, std::size_t index, BlockBytes block) {
  put_u16(row.scales[index], block, 0);
  pack_fifth_bits(row.codes.data() + 32 * index, block.subspan(2, 4));
  pack_halves(row.codes.data() + 32 * index, block.subspan(6, 16));
}

void write_q5_1(const QuantizedRow& row, std::size_t index, BlockBytes block) {
  put_u16(row.scales[index], block, 0);
  put_u16(row.minimums[index] ^ kHalfSign, block, 2);
  pack_fifth_bits(row.codes.data() + 32 * index, block.subspan(4, 4));
  pack_halves(row.codes.data() + 32 * index, block.subspan(8, 16));
}

/// Packs eight pairs of 6-bit factors into 12 bytes.
void write_pairs(const std::int8_t* factors, const std::int8_t* minimum_factors, BlockBytes packed) {
  for (std::size_t group = 0; group < 8; ++group) {
    const unsigned factor = static_cast<std::uint8_t>(factors[group]);
    const unsigned minimum = static_cast<std::uint8_t>(minimum_factors[group]);
    if (group < 4) {
      packed[group] = static_cast<std::uint8_t>(packed[group] | factor);
      packed[group + 4] = static_cast<std::uint8_t>(packed[group + 4] | minimum);
    } else {
      packed[group + 4] = static_cast<std::uint8_t>((factor & 0x0FU) | (minimum & 0x0FU) << 4U);
      packed[group - 4] = static_cast<std::uint8_t>(packed[group - 4] | (factor >> 4U) << 6U);
      packed[group] = static_cast<std::uint8_t>(packed[group] | (minimum >> 4U) << 6U);
    }
  }
}

/// Writes scales, factors and the low 4 bits of a Q4_K or Q5_K block.
void write_k_block(const QuantizedRow& row, std::size_t index, BlockBytes block, BlockBytes nibbles) {
  put_u16(row.scales[index], block, 0);
  put_u16(row.minimums[index], block, 2);
  write_pairs(row.factors.data() + 8 * index, row.minimum_factors.data() + 8 * index, block.subspan(4, 12));
  for (std::size_t pair = 0; pair < 4; ++pair) {
    pack_halves(row.codes.data() + 256 * index + 64 * pair, nibbles.subspan(32 * pair, 32));
  }
}

void write_q4_k(const QuantizedRow& row, std::size_t index, BlockBytes block) {
  write_k_block(row, index, block, block.subspan(16, 128));
}

void write_q5_k(const QuantizedRow& row, std::size_t index, BlockBytes block) {
  write_k_block(row, index, block, block.subspan(48, 128));
  const std::uint8_t* codes = row.codes.data() + 256 * index;
  for (std::size_t i = 0; i < 256; ++i) {
    block[16 + i % 32] = static_cast<std::uint8_t>(block[16 + i % 32] | ((codes[i] >> 4) & 1) << i / 32);
  }
}

void write_q6_k(const QuantizedRow& row, std::size_t index, BlockBytes block) {
  put_u16(row.scales[index], block, 208);
  std::memcpy(block.data() + 192, row.factors.data() + 16 * index, 16);
  for (std::size_t half = 0; half < 2; ++half) {
    const std::uint8_t* codes = row.codes.data() + 256 * index + 128 * half;
    pack_halves(codes, block.subspan(64 * half, 64));
    for (std::size_t i = 0; i < 128; ++i) {
      std::uint8_t& high = block[128 + 32 * half + i % 32];
      high = static_cast<std::uint8_t>(high | (codes[i] >> 4) << i / 32 * 2);
    }
  }
}

/// Packs the low 2 bits of 256 codes into 64 bytes, as ggml_rows.cc reads them.
void pack_two_bits(const std::uint8_t* codes, BlockBytes bytes) {
  for (std::size_t i = 0; i < 256; ++i) {
    std::uint8_t& byte = bytes[i / 128 * 32 + i % 32];
    byte = static_cast<std::uint8_t>(byte | (codes[i] & 3) << i / 32 % 4 * 2);
  }
}

void write_q2_k(const QuantizedRow& row, std::size_t index, BlockBytes block) {
  put_u16(row.scales[index], block, 80);
  put_u16(row.minimums[index], block, 82);
  for (std::size_t group = 0; group < 16; ++group) {
    block[group] =
        static_cast<std::uint8_t>(row.factors[16 * index + group] | row.minimum_factors[16 * index + group] << 4);
  }
  pack_two_bits(row.codes.data() + 256 * index, block.subspan(16, 64));
}

void write_q3_k(const QuantizedRow& row, std::size_t index, BlockBytes block) {
  constexpr int kOfMiddle = 8 - 4;
  put_u16(row.scales[index], block, 108);
  const BlockBytes packed = block.subspan(96, 12);
  for (std::size_t group = 0; group < 16; ++group) {
    const auto factor = static_cast<unsigned>(row.factors[16 * index + group] + 32);
    packed[group % 8] = static_cast<std::uint8_t>(packed[group % 8] | (factor & 0x0FU) << group / 8 * 4);
    packed[8 + group % 4] = static_cast<std::uint8_t>(packed[8 + group % 4] | (factor >> 4U) << group / 4 * 2);
  }
  std::array<std::uint8_t, 256> codes{};
  for (std::size_t i = 0; i < 256; ++i) {
    codes[i] = static_cast<std::uint8_t>(row.codes[256 * index + i] - kOfMiddle);
    block[i % 32] = static_cast<std::uint8_t>(block[i % 32] | (codes[i] >> 2) << i / 32);
  }
  pack_two_bits(codes.data(), block.subspan(32, 64));
}

/// Packs two codes for each byte, offset by `middle`, as their indices in the table of 4-bit values.
void pack_places(const std::array<std::int8_t, 16>& table, const std::uint8_t* codes, int middle, BlockBytes nibbles) {
  std::array<std::uint8_t, 32> places{};
  for (std::size_t i = 0; i < 2 * nibbles.size(); ++i) {
    const auto* found = std::ranges::find(table, static_cast<std::int8_t>(codes[i] - middle));
    assert(found != table.end());
    places[i] = static_cast<std::uint8_t>(found - table.begin());
  }
  pack_halves(places.data(), nibbles);
}

void write_iq4_nl(const QuantizedRow& row, std::size_t index, BlockBytes block) {
  put_u16(row.scales[index], block, 0);
  pack_places(kIq4Values, row.codes.data() + 32 * index, 128, block.subspan(2, 16));
}

void write_iq4_xs(const QuantizedRow& row, std::size_t index, BlockBytes block) {
  put_u16(row.scales[index], block, 0);
  unsigned high_bits = 0;
  for (std::size_t group = 0; group < 8; ++group) {
    const auto factor = static_cast<unsigned>(row.factors[8 * index + group] + 32);
    std::uint8_t& low = block[4 + group / 2];
    low = static_cast<std::uint8_t>(low | (factor & 0x0FU) << group % 2 * 4);
    high_bits |= (factor >> 4U) << (2 * group);
    pack_places(kIq4Values, row.codes.data() + 256 * index + 32 * group, 128, block.subspan(8 + 16 * group, 16));
  }
  put_u16(static_cast<std::uint16_t>(high_bits), block, 2);
}

void write_mxfp4(const QuantizedRow& row, std::size_t index, BlockBytes block) {
  constexpr int kFractionBits = 7;
  // The scale is a BF16: the two smallest powers of two have no exponent, but one bit of the fraction.
  const unsigned scale = row.scales[index];
  const unsigned exponent = scale >> kFractionBits;
  block[0] = static_cast<std::uint8_t>(exponent != 0 ? exponent + 1 : scale >> (kFractionBits - 1));
  pack_places(kTwiceE2M1, row.codes.data() + 32 * index, 16, block.subspan(1, 16));
}

void write_nvfp4(const QuantizedRow& row, std::size_t index, BlockBytes block) {
  for (std::size_t group = 0; group < 4; ++group) {
    const float scale = half_at(&row.scales[4 * index + group]);
    const auto* found = std::ranges::lower_bound(kNvfp4Scales, scale);
    assert(found != kNvfp4Scales.end() && *found == scale);
    block[group] = static_cast<std::uint8_t>(found - kNvfp4Scales.begin());
    pack_places(kTwiceE2M1, row.codes.data() + 64 * index + 16 * group, 32, block.subspan(4 + 8 * group, 8));
  }
}

template <DType kType>
void write_lattice(const QuantizedRow& row, std::size_t index, BlockBytes block) {
  write_iq_block(*find_iq_lattice(kType), row, index, block);
}

struct BlockWriter {
  DType dtype;
  void (*write)(const QuantizedRow& row, std::size_t index, BlockBytes block);
};

constexpr std::array<BlockWriter, 19> kWriters{{
    {DType::kQ8_0, write_q8_0},
    {DType::kQ4_0, write_q4_0},
    {DType::kQ4_1, write_q4_1},
    {DType::kQ5_0, write_q5_0},
    {DType::kQ5_1, write_q5_1},
    {DType::kQ2_K, write_q2_k},
    {DType::kQ3_K, write_q3_k},
    {DType::kQ4_K, write_q4_k},
    {DType::kQ5_K, write_q5_k},
    {DType::kQ6_K, write_q6_k},
    {DType::kIQ4_NL, write_iq4_nl},
    {DType::kIQ4_XS, write_iq4_xs},
    {DType::kMXFP4, write_mxfp4},
    {DType::kNVFP4, write_nvfp4},
    {DType::kIQ2_XXS, write_lattice<DType::kIQ2_XXS>},
    {DType::kIQ2_XS, write_lattice<DType::kIQ2_XS>},
    {DType::kIQ2_S, write_lattice<DType::kIQ2_S>},
    {DType::kIQ3_XXS, write_lattice<DType::kIQ3_XXS>},
    {DType::kIQ3_S, write_lattice<DType::kIQ3_S>},
}};

}  // namespace

void write_quantized_row(DType dtype, const QuantizedRow& row, std::byte* blocks) {
  const auto* writer = std::ranges::find(kWriters, dtype, &BlockWriter::dtype);
  assert(writer != kWriters.end());
  const DTypeInfo& info = dtype_info(dtype);
  const std::size_t count = row.codes.size() / info.block_elements;
  std::memset(blocks, 0, count * info.block_bytes);
  for (std::size_t i = 0; i < count; ++i) {
    writer->write(row, i, {reinterpret_cast<std::uint8_t*>(blocks) + i * info.block_bytes, info.block_bytes});
  }
}

}  // namespace ballast::formats
