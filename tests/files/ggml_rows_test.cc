#include "files/gguf/ggml_rows.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "files/safetensors/safetensors_file.h"
#include "kernels/matrix/quantized_matrix.h"

namespace ballast::files {
namespace {

TEST_CASE("kernels' matrices of GGUF blocks hold the blocks' values exactly") {
  const SafetensorsFile golden(std::filesystem::path(BALLAST_TEST_DATA) / "ggml_blocks.safetensors");
  std::size_t types = 0;
  for (const DTypeInfo& info : kDTypes) {
    if (info.block_elements == 1) continue;
    CAPTURE(info.name);
    const TensorView& blocks = golden.tensor(std::string(info.name) + ".blocks");
    const TensorView& values = golden.tensor(std::string(info.name) + ".values");
    const auto count = static_cast<std::size_t>(element_count(values.shape));
    const std::size_t rows = count / info.block_elements;
    for (const std::size_t blocks_of_row : {std::size_t{1}, rows}) {
      const std::size_t cols = blocks_of_row * info.block_elements;
      const std::optional<kernels::QuantizedForm> form = quantized_form(info.dtype, count / cols, cols);
      if (!form) continue;
      std::atomic<bool> finite = true;
      const kernels::QuantizedMatrix matrix(*form, [&](std::size_t row, kernels::QuantizedRow& dst) {
        const std::byte* src = blocks.bytes.data() + row * blocks_of_row * info.block_bytes;
        if (!read_quantized_row(info.dtype, src, dst)) finite = false;
      });
      std::vector<float> expected(count), decoded(count);
      std::memcpy(expected.data(), values.bytes.data(), values.bytes.size());
      for (std::size_t row = 0; row < form->rows; ++row) matrix.decode_row(row, decoded.data() + row * cols);
      CHECK(finite);
      CHECK(decoded == expected);
      ++types;
    }
  }
  CHECK(types >= 2 * 8);
}

TEST_CASE("a row says whether its scales and minimums are finite") {
  for (const DType dtype : {DType::kQ8_0, DType::kQ5_1, DType::kQ4_K, DType::kQ6_K}) {
    const DTypeInfo& info = dtype_info(dtype);
    CAPTURE(info.name);
    kernels::QuantizedRow row(*quantized_form(dtype, 1, 2 * info.block_elements));
    std::vector<std::uint8_t> blocks(2 * info.block_bytes);
    const auto read = [&] { return read_quantized_row(dtype, std::as_bytes(std::span(blocks)).data(), row); };
    CHECK(read());
    const std::size_t scale = info.block_bytes + (dtype == DType::kQ6_K ? 208 : 0);
    blocks[scale + 1] = 0x7C;  // infinite
    CHECK(!read());
    blocks[scale + 1] = 0;
    if (dtype == DType::kQ8_0 || dtype == DType::kQ6_K) continue;
    blocks[3] = 0xFE;  // the first minimum is not a number
    CHECK(!read());
  }
}

TEST_CASE("floats and integers have no form of blocks") {
  CHECK(!quantized_form(DType::kF32, 1, 32));
  CHECK(!quantized_form(DType::kF16, 1, 32));
}

}  // namespace
}  // namespace ballast::files
