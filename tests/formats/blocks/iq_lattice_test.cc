#include "formats/blocks/iq_lattice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "files/safetensors/safetensors_file.h"
#include "formats/blocks/block_fields.h"
#include "formats/blocks/ggml_blocks.h"
#include "formats/blocks/ggml_row_writer.h"
#include "formats/blocks/ggml_rows.h"

namespace ballast::formats {
namespace {

constexpr DType kLatticeTypes[] = {DType::kIQ2_XXS, DType::kIQ2_XS, DType::kIQ2_S, DType::kIQ3_XXS, DType::kIQ3_S};

/// Returns the four bits of a group's factor in a block.
unsigned factor_bits(DType type, const std::uint8_t* block, std::size_t group) {
  if (type == DType::kIQ2_XXS) return block[2 + 8 * group + 7] >> 4U;
  if (type == DType::kIQ3_XXS) return block[66 + 4 * group + 3] >> 4U;
  const std::size_t at = type == DType::kIQ2_XS ? 66 : type == DType::kIQ2_S ? 74 : 106;
  return (block[at + group / 2] >> (4 * (group % 2))) & 0x0FU;
}

/// Reads one block by decoding it with a scale of 1.
kernels::QuantizedRow read_row(const IqLattice& lattice, std::span<const std::byte> block) {
  kernels::QuantizedRow row(iq_row_layout(lattice, 256));
  std::memcpy(row.scales.data(), block.data(), 2);
  std::vector<std::byte> unscaled(block.begin(), block.end());
  unscaled[0] = std::byte{0};
  unscaled[1] = std::byte{0x3C};
  std::vector<float> values(256);
  decode_ggml_blocks(lattice.dtype, unscaled.data(), 1, values.data());
  for (std::size_t group = 0; group < row.factors.size(); ++group) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(block.data());
    row.factors[group] = static_cast<std::int8_t>(2 * factor_bits(lattice.dtype, bytes, group) + 1);
  }
  for (std::size_t i = 0; i < 256; ++i) {
    const float step = values[i] / (lattice.unit * static_cast<float>(row.factors[i / lattice.group_size]));
    CHECK(step == std::nearbyint(step));
    row.codes[i] = static_cast<std::uint8_t>(static_cast<int>(step) + lattice.middle());
  }
  return row;
}

TEST_CASE("blocks of lattices that were read are written back byte for byte") {
  const files::SafetensorsFile golden(std::filesystem::path(BALLAST_TEST_DATA) / "ggml_blocks.safetensors");
  for (const DType type : kLatticeTypes) {
    const DTypeInfo& info = dtype_info(type);
    CAPTURE(info.name);
    const IqLattice& lattice = *find_iq_lattice(type);
    const TensorView& rows = golden.tensor(std::string(info.name));
    const auto row_bytes = static_cast<std::size_t>(rows.shape.back());  // a block and a hash
    std::vector<std::byte> all;
    kernels::QuantizedRow joined(written_layout(type, 256 * rows.bytes.size() / row_bytes));
    for (std::size_t begin = 0; begin < rows.bytes.size(); begin += row_bytes) {
      const std::span<const std::byte> block = rows.bytes.subspan(begin, info.block_bytes);
      const kernels::QuantizedRow row = read_row(lattice, block);
      std::vector<std::byte> written(info.block_bytes, std::byte{0xFF});
      write_quantized_row(type, row, written.data());
      CHECK(std::ranges::equal(written, block));
      const std::size_t index = begin / row_bytes;
      joined.scales[index] = row.scales[0];
      std::ranges::copy(row.codes, joined.codes.begin() + static_cast<std::ptrdiff_t>(256 * index));
      std::ranges::copy(row.factors, joined.factors.begin() + static_cast<std::ptrdiff_t>(row.factors.size() * index));
      all.insert(all.end(), block.begin(), block.end());
    }
    CHECK(all.size() > 2 * info.block_bytes);
    std::vector<std::byte> written(all.size());
    write_quantized_row(type, joined, written.data());
    CHECK(written == all);
  }
}

TEST_CASE("only types whose blocks are written as points are lattices") {
  CHECK(find_iq_lattice(DType::kIQ4_XS) == nullptr);
  CHECK(find_iq_lattice(DType::kIQ1_S) == nullptr);
  CHECK(find_iq_lattice(DType::kIQ2_S)->point_count() == 1024);
}

}  // namespace
}  // namespace ballast::formats
