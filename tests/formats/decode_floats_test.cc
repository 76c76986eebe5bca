#include "formats/decode_floats.h"

#include <doctest/doctest.h>
#include <omp.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "error_message.h"
#include "file_bytes.h"
#include "files/safetensors/safetensors_file.h"
#include "formats/blocks/ggml_blocks.h"
#include "formats/blocks/iq_grids.h"

namespace ballast::formats {
namespace {

using test::error_message;

template <typename T>
TensorView view_of(DType dtype, Shape shape, const std::vector<T>& values) {
  return {dtype, std::move(shape), std::as_bytes(std::span(values))};
}

// Returns the 64-bit FNV-1a hash over whole words, as scripts/make_golden_ggml.py computes it.
template <typename Words>
std::uint64_t fnv1a(const Words& words) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const auto word : words) hash = (hash ^ word) * 0x100000001B3;
  return hash;
}

std::uint64_t hash_at(const std::byte* src) {
  std::uint64_t hash = 0;
  std::memcpy(&hash, src, sizeof(hash));
  return hash;
}

std::uint64_t hash_of_values(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::isnan(value) ? 0x7FC00000 : std::bit_cast<std::uint32_t>(value));
  return fnv1a(bits);
}

TEST_CASE("blocks of every GGUF type decode bit for bit as the gguf package does") {
  // Written by scripts/make_golden_ggml.py: each row is a block and the hash of its values.
  const files::SafetensorsFile golden(std::filesystem::path(BALLAST_TEST_DATA) / "ggml_blocks.safetensors");
  for (const DTypeInfo& info : kDTypes) {
    if (info.block_elements == 1) continue;
    CAPTURE(info.name);
    const TensorView& rows = golden.tensor(std::string(info.name));
    const std::size_t row_bytes = info.block_bytes + sizeof(std::uint64_t);
    REQUIRE(rows.shape.back() == static_cast<std::int64_t>(row_bytes));
    REQUIRE(rows.bytes.size() / row_bytes > 4);
    for (std::size_t row = 0; row < rows.bytes.size() / row_bytes; ++row) {
      CAPTURE(row);
      const std::byte* block = rows.bytes.data() + row * row_bytes;
      std::vector<float> decoded(info.block_elements);
      decode_ggml_blocks(info.dtype, block, 1, decoded.data());
      CHECK(hash_of_values(decoded) == hash_at(block + info.block_bytes));
    }
  }
}

template <std::size_t kPoints, std::size_t kElements>
std::uint64_t hash_of_grid(const Grid<kPoints, kElements>& grid) {
  std::vector<std::uint8_t> bytes;
  for (const auto& point : grid) {
    for (const std::int8_t value : point) bytes.push_back(static_cast<std::uint8_t>(value));
  }
  return fnv1a(bytes);
}

TEST_CASE("the lattices of the IQ types are those of the gguf package") {
  const files::SafetensorsFile golden(std::filesystem::path(BALLAST_TEST_DATA) / "ggml_blocks.safetensors");
  const auto expected = [&](const std::string& type) { return hash_at(golden.tensor(type + ".grid").bytes.data()); };
  CHECK(hash_of_grid(kIq1Grid) == expected("IQ1_S"));
  CHECK(hash_of_grid(kIq2XxsGrid) == expected("IQ2_XXS"));
  CHECK(hash_of_grid(kIq2XsGrid) == expected("IQ2_XS"));
  CHECK(hash_of_grid(kIq2SGrid) == expected("IQ2_S"));
  CHECK(hash_of_grid(kIq3XxsGrid) == expected("IQ3_XXS"));
  CHECK(hash_of_grid(kIq3SGrid) == expected("IQ3_S"));
}

TEST_CASE("doubles are rounded to the nearest float; one that is too large is refused") {
  std::vector<double> values{0.1, -3e38, 1e-46, 1 + 0x1p-24 + 0x1p-50};
  std::vector<float> decoded(4);
  decode_floats(view_of(DType::kF64, {4}, values), "t", decoded.data());
  CHECK(decoded == std::vector<float>{0.1f, -3e38f, 0.0f, 1 + 0x1p-23f});
  values[2] = 1e39;
  CHECK(error_message([&] { decode_floats(view_of(DType::kF64, {4}, values), "t", decoded.data()); }) ==
        "t: element [2] is infinite; the weights are damaged");
}

TEST_CASE("floats of 16 and 32 bits decode exactly, for any number of threads and from any address") {
  const std::size_t count = 100'003;  // several chunks and a tail
  std::vector<std::uint16_t> halves(count);
  for (std::size_t i = 0; i < count; ++i) halves[i] = static_cast<std::uint16_t>(i * 7919 % 0x7C00 | (i % 2) << 15);
  std::string unaligned = "x" + std::string(reinterpret_cast<const char*>(halves.data()), 2 * count);
  const TensorView view{DType::kBF16, {static_cast<std::int64_t>(count)}, test::as_bytes(unaligned).subspan(1)};
  const int threads = omp_get_max_threads();
  for (const int used : {1, 2, 3}) {
    omp_set_num_threads(used);
    std::vector<float> decoded(count);
    decode_floats(view, "t", decoded.data());
    bool equal = true;
    for (std::size_t i = 0; i < count; ++i) {
      equal = equal && std::bit_cast<std::uint32_t>(decoded[i]) == std::uint32_t{halves[i]} << 16;
    }
    CHECK(equal);
  }
  omp_set_num_threads(threads);

  const std::vector<std::uint16_t> f16{0x3C00, 0xC000, 0x0001, 0x7BFF, 0x8000};
  std::vector<float> decoded(5);
  decode_floats(view_of(DType::kF16, {5}, f16), "t", decoded.data());
  CHECK(decoded == std::vector<float>{1.0f, -2.0f, 0x1p-24f, 65504.0f, -0.0f});

  const std::vector<float> f32{1.5f, -3e38f};
  std::vector<float> copied(2);
  decode_floats(view_of(DType::kF32, {2}, f32), "t", copied.data());
  CHECK(copied == f32);
}

TEST_CASE("the first value that is not finite is named by its index") {
  std::vector<float> values(std::size_t{3} * 40'000, 1.0f);
  values[std::size_t{2} * 40'000 + 17] = std::numeric_limits<float>::quiet_NaN();
  values[std::size_t{2} * 40'000 + 19] = std::numeric_limits<float>::infinity();
  std::vector<float> decoded(values.size());
  const auto refusal = [&] {
    return error_message(
        [&] { decode_floats(view_of(DType::kF32, {3, 40'000}, values), "f: tensor \"w\"", decoded.data()); });
  };
  CHECK(refusal() == "f: tensor \"w\": element [2, 17] is not a number; the weights are damaged");
  values[40'000] = -std::numeric_limits<float>::infinity();
  CHECK(refusal() == "f: tensor \"w\": element [1, 0] is infinite; the weights are damaged");
}

TEST_CASE("a block whose scale is infinite is refused") {
  std::vector<std::uint8_t> block(34, 1);
  block[0] = 0x00;
  block[1] = 0x7C;
  std::vector<float> decoded(32);
  CHECK(error_message([&] { decode_floats(view_of(DType::kQ8_0, {32}, block), "t", decoded.data()); }) ==
        "t: element [0] is infinite; the weights are damaged");
}

TEST_CASE("integers are not decoded as floats") {
  const std::vector<std::int32_t> values(4);
  float decoded[4];
  CHECK(error_message([&] { decode_floats(view_of(DType::kI32, {4}, values), "t", decoded); }) ==
        "t: holds I32, where floating values are expected");
}

TEST_CASE("a tensor without elements decodes to nothing") {
  CHECK_NOTHROW(decode_floats({DType::kF16, {0, 5}, {}}, "t", nullptr));
}

}  // namespace
}  // namespace ballast::formats
