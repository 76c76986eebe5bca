#include "formats/blocks/ggml_row_writer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "ballast/recipe.h"
#include "files/safetensors/safetensors_file.h"
#include "formats/blocks/ggml_rows.h"

namespace ballast::formats {
namespace {

/// Returns whether read_quantized_row reads a type.
bool has_layout(DType type) {
  return block_layout(type, 1, dtype_info(type).block_elements).has_value();
}

bool same_row(const kernels::QuantizedRow& a, const kernels::QuantizedRow& b) {
  return a.codes == b.codes && a.scales == b.scales && a.minimums == b.minimums && a.factors == b.factors &&
         a.minimum_factors == b.minimum_factors;
}

/// Returns whether a block can be written again: a scale of NVFP4 with all bits is read, but its own code is no number.
bool can_be_written(DType type, std::span<const std::byte> block) {
  return type != DType::kNVFP4 || std::ranges::find(block.first(4), std::byte{0xFF}) == block.begin() + 4;
}

TEST_CASE("blocks that were read are written back byte for byte") {
  const files::SafetensorsFile golden(std::filesystem::path(BALLAST_TEST_DATA) / "ggml_blocks.safetensors");
  for (const DType type : writable_block_types()) {
    if (!has_layout(type)) continue;
    const DTypeInfo& info = dtype_info(type);
    CAPTURE(info.name);
    const TensorView& rows = golden.tensor(std::string(info.name));
    const auto row_bytes = static_cast<std::size_t>(rows.shape.back());  // a block and a hash
    kernels::QuantizedRow row(*block_layout(info.dtype, 1, info.block_elements));
    std::vector<std::byte> written(info.block_bytes);
    std::size_t finite = 0;
    for (std::size_t begin = 0; begin < rows.bytes.size(); begin += row_bytes) {
      const std::span<const std::byte> block = rows.bytes.subspan(begin, info.block_bytes);
      if (!can_be_written(type, block) || !read_quantized_row(info.dtype, block.data(), row)) continue;
      ++finite;
      write_quantized_row(info.dtype, row, written.data());
      if (type == DType::kMXFP4 ||
          type == DType::kNVFP4) {  // they have two zeros, and NVFP4 has bits that mean nothing
        kernels::QuantizedRow back(*block_layout(info.dtype, 1, info.block_elements));
        CHECK(read_quantized_row(info.dtype, written.data(), back));
        CHECK(same_row(back, row));
      } else {
        CHECK(std::ranges::equal(written, block));
      }
    }
    CHECK(finite > 2);
  }
}

TEST_CASE("rows of several blocks are written block by block") {
  const files::SafetensorsFile golden(std::filesystem::path(BALLAST_TEST_DATA) / "ggml_blocks.safetensors");
  for (const DType dtype : writable_block_types()) {
    if (!has_layout(dtype)) continue;
    const DTypeInfo& info = dtype_info(dtype);
    CAPTURE(info.name);
    const TensorView& stored = golden.tensor(std::string(info.name));
    kernels::QuantizedRow one(*block_layout(dtype, 1, info.block_elements));
    std::vector<std::byte> blocks;
    for (std::size_t at = 0; blocks.size() < 3 * info.block_bytes;
         at += static_cast<std::size_t>(stored.shape.back())) {
      const std::span<const std::byte> block = stored.bytes.subspan(at, info.block_bytes);
      if (!can_be_written(dtype, block)) continue;
      if (read_quantized_row(dtype, block.data(), one)) blocks.insert(blocks.end(), block.begin(), block.end());
    }
    kernels::QuantizedRow row(*block_layout(dtype, 1, 3 * info.block_elements));
    REQUIRE(read_quantized_row(dtype, blocks.data(), row));
    std::vector<std::byte> written(blocks.size());
    write_quantized_row(dtype, row, written.data());
    kernels::QuantizedRow back(*block_layout(dtype, 1, 3 * info.block_elements));
    REQUIRE(read_quantized_row(dtype, written.data(), back));
    CHECK(same_row(back, row));
  }
}

}  // namespace
}  // namespace ballast::formats
