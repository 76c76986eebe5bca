#include "formats/blocks/ggml_rows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "files/safetensors/safetensors_file.h"
#include "formats/blocks/ggml_blocks.h"
#include "kernels/matrix/quantized_matrix.h"

namespace ballast::formats {
namespace {

using Blocks = std::vector<std::byte>;

/// Returns the golden blocks of a type whose scales are finite, one after the other.
Blocks finite_blocks(const files::SafetensorsFile& golden, const DTypeInfo& info) {
  const TensorView& rows = golden.tensor(std::string(info.name));
  const auto row_bytes = static_cast<std::size_t>(rows.shape.back());  // a block and a hash
  kernels::QuantizedRow scratch(*block_layout(info.dtype, 1, info.block_elements));
  Blocks blocks;
  for (std::size_t begin = 0; begin < rows.bytes.size(); begin += row_bytes) {
    const std::span<const std::byte> block = rows.bytes.subspan(begin, info.block_bytes);
    if (read_quantized_row(info.dtype, block.data(), scratch)) blocks.insert(blocks.end(), block.begin(), block.end());
  }
  return blocks;
}

TEST_CASE("kernels' matrices of GGUF blocks hold the blocks' values exactly") {
  const files::SafetensorsFile golden(std::filesystem::path(BALLAST_TEST_DATA) / "ggml_blocks.safetensors");
  std::size_t types = 0;
  for (const DTypeInfo& info : kDTypes) {
    if (!block_layout(info.dtype, 1, info.block_elements)) continue;
    CAPTURE(info.name);
    ++types;
    const Blocks blocks = finite_blocks(golden, info);
    const std::size_t count = blocks.size() / info.block_bytes;
    REQUIRE(count > 2);
    std::vector<float> expected(count * info.block_elements), decoded(expected.size());
    decode_ggml_blocks(info.dtype, blocks.data(), count, expected.data());
    for (const std::size_t blocks_of_row : {std::size_t{1}, count}) {
      const std::size_t cols = blocks_of_row * info.block_elements;
      const kernels::QuantizedMatrix matrix(*block_layout(info.dtype, count / blocks_of_row, cols),
                                            [&](std::size_t row, kernels::QuantizedRow& dst) {
                                              const std::size_t begin = row * blocks_of_row * info.block_bytes;
                                              read_quantized_row(info.dtype, blocks.data() + begin, dst);
                                            });
      for (std::size_t row = 0; row < matrix.rows(); ++row) matrix.decode_row(row, decoded.data() + row * cols);
      CHECK(decoded == expected);
    }
  }
  CHECK(types == 17);
}

TEST_CASE("reading a row returns whether its scales and minimums are finite") {
  for (const DType dtype : {DType::kQ8_0, DType::kQ5_1, DType::kQ4_K, DType::kQ6_K}) {
    const DTypeInfo& info = dtype_info(dtype);
    CAPTURE(info.name);
    kernels::QuantizedRow row(*block_layout(dtype, 1, 2 * info.block_elements));
    Blocks blocks(2 * info.block_bytes);
    const auto read = [&] { return read_quantized_row(dtype, blocks.data(), row); };
    CHECK(read());
    const std::size_t scale = info.block_bytes + (dtype == DType::kQ6_K ? 208 : 0);
    blocks[scale + 1] = std::byte{0x7C};  // infinite
    CHECK(!read());
    blocks[scale + 1] = std::byte{0};
    if (dtype == DType::kQ8_0 || dtype == DType::kQ6_K) continue;
    blocks[3] = std::byte{0xFE};  // the first minimum is not a number
    CHECK(!read());
  }
}

TEST_CASE("blocks of any type are rounded to INT8 with an error of at most half a step, also for tiny values") {
  const files::SafetensorsFile golden(std::filesystem::path(BALLAST_TEST_DATA) / "ggml_blocks.safetensors");
  std::size_t types = 0;
  for (const DTypeInfo& info : kDTypes) {
    if (info.block_elements == 1 || block_layout(info.dtype, 1, info.block_elements)) continue;
    CAPTURE(info.name);
    ++types;
    const TensorView& blocks = golden.tensor(std::string(info.name));
    const auto block_bytes = static_cast<std::size_t>(blocks.shape.back());  // a block and a hash
    kernels::QuantizedRow row(rounded_layout(1, info.block_elements));
    std::vector<float> expected(info.block_elements), decoded(info.block_elements);
    std::size_t finite = 0;
    for (std::size_t begin = 0; begin < blocks.bytes.size(); begin += block_bytes) {
      const std::byte* block = blocks.bytes.data() + begin;
      decode_ggml_blocks(info.dtype, block, 1, expected.data());
      const bool all_finite = std::ranges::all_of(expected, [](float value) { return std::isfinite(value); });
      REQUIRE(round_row(info.dtype, block, row) == all_finite);
      if (!all_finite) continue;
      ++finite;
      const kernels::QuantizedMatrix matrix(
          rounded_layout(1, info.block_elements),
          [&](std::size_t, kernels::QuantizedRow& dst) { round_row(info.dtype, block, dst); });
      matrix.decode_row(0, decoded.data());
      for (std::size_t group = 0; group < info.block_elements; group += 32) {
        float largest = 0;
        for (std::size_t i = group; i < group + 32; ++i) largest = std::max(largest, std::abs(expected[i]));
        // A scale of BF16, rounded up, is at most 1 / 128 larger.
        const float half_step = largest / 127 / 2 * (1 + 1.0F / 100);
        for (std::size_t i = group; i < group + 32; ++i) REQUIRE(std::abs(decoded[i] - expected[i]) <= half_step);
      }
    }
    CHECK(finite > 2);
  }
  CHECK(types == 6);
}

TEST_CASE("floats and blocks of IQ grids have no layout of codes") {
  CHECK(!block_layout(DType::kF32, 1, 32));
  CHECK(!block_layout(DType::kF16, 1, 32));
  CHECK(!block_layout(DType::kIQ2_XXS, 1, 256));
}

}  // namespace
}  // namespace ballast::formats
