#include "formats/codecs/ballast.h"

#include <doctest/doctest.h>

#include <bit>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "error_message.h"
#include "formats/code_matrix.h"
#include "kernels/matrix/float_matrix.h"
#include "kernels/matrix/quantized_matrix.h"
#include "temporary_directory.h"

namespace ballast::formats {
namespace {

using test::Contains;
using test::error_message;

constexpr std::size_t kRows = 3;
constexpr std::size_t kCols = 37;  // odd, with a short last group
constexpr WeightFormat kFormat = {.bits = 4, .group_size = 32, .symmetric = false};
constexpr WeightFormat kFormatOf8BitScales = {.bits = 4, .group_size = 32, .symmetric = false, .scale_bits = 8};

std::uint16_t half(float value) {
  std::uint16_t bits = 0;
  kernels::from_float(&value, 1, kernels::FloatType::kF16, &bits);
  return bits;
}

CodeMatrix sample_tensor() {
  CodeMatrix tensor;
  tensor.rows = kRows;
  tensor.cols = kCols;
  tensor.format = kFormat;
  for (std::size_t i = 0; i < kRows * packed_row_bytes(kCols, 4); ++i) {
    tensor.codes.push_back(static_cast<std::uint8_t>(i * 37 + 11));
  }
  for (const float scale : {0.5F, 1.5F, 0.0F, -0.25F, 2.0F, 1.0F}) tensor.scales.push_back(half(scale));
  tensor.zeros = {0x83, 0x0F, 0x71};
  tensor.outlier_columns = {4, 33};
  // An outlier's code is its group's zero.
  for (std::size_t r = 0; r < kRows; ++r) {
    std::uint8_t* row = tensor.codes.data() + r * packed_row_bytes(kCols, 4);
    row[2] = static_cast<std::uint8_t>((row[2] & 0xF0) | (tensor.zeros[r] & 0x0F));
    row[16] = static_cast<std::uint8_t>((row[16] & 0x0F) | (tensor.zeros[r] & 0xF0));
  }
  for (const float weight : {100.0F, -7.0F, 0.125F, 3.0F, -2.5F, 60000.0F})
    tensor.outlier_weights.push_back(half(weight));
  return tensor;
}

/// The same codes with scales that are row_scale * code / 256.
CodeMatrix sample_of_8_bit_scales() {
  CodeMatrix tensor = sample_tensor();
  tensor.format = kFormatOf8BitScales;
  for (const float scale : {2.0F, 0.0F, 1.0F}) tensor.row_scales.push_back(half(scale));
  tensor.scale_codes = {64, 255, 0, 7, 3, 128};
  tensor.scales.clear();
  for (std::size_t i = 0; i < tensor.scale_codes.size(); ++i) {
    const float row_scale = i < 2 ? 2.0F : i < 4 ? 0.0F : 1.0F;
    tensor.scales.push_back(half(row_scale * static_cast<float>(tensor.scale_codes[i]) / 256));
  }
  return tensor;
}

float expected_weight(const CodeMatrix& tensor, std::size_t row, std::size_t col) {
  const auto to_float = [](std::uint16_t bits) {
    float value = 0;
    kernels::to_float(&bits, kernels::FloatType::kF16, 1, &value);
    return value;
  };
  for (std::size_t j = 0; j < tensor.outlier_columns.size(); ++j) {
    if (static_cast<std::size_t>(tensor.outlier_columns[j]) == col)
      return to_float(tensor.outlier_weights[row * 2 + j]);
  }
  const std::size_t group = col / 32;
  const int code = tensor.codes[row * packed_row_bytes(kCols, 4) + col / 2] >> (col % 2 * 4) & 15;
  const int zero = tensor.zeros[row] >> (group % 2 * 4) & 15;
  return static_cast<float>(code - zero) * to_float(tensor.scales[row * 2 + group]);
}

/// Parts under their plans, which a test may change, written as a model's directory.
struct Stored {
  std::vector<files::TensorPlan> plans;
  std::vector<std::vector<std::byte>> bytes;

  explicit Stored(const CodeMatrix& tensor) {
    for (const QuantizedPart& part : quantized_parts("m", tensor.view())) {
      plans.push_back(part.plan);
      bytes.emplace_back(part.bytes.begin(), part.bytes.end());
    }
  }

  std::size_t index(const std::string& name) const {
    for (std::size_t i = 0; i < plans.size(); ++i) {
      if (plans[i].name == name) return i;
    }
    FAIL("no part " << name);
    return 0;
  }

  void drop(const std::string& name) {
    const auto at = static_cast<std::ptrdiff_t>(index(name));
    plans.erase(plans.begin() + at);
    bytes.erase(bytes.begin() + at);
  }

  std::unique_ptr<files::Checkpoint> write(const std::filesystem::path& directory) const {
    test::write_file(directory / "config.json", "{}");
    files::SafetensorsWriter writer(directory, plans, {});
    for (std::size_t i = 0; i < plans.size(); ++i) writer.write(plans[i].name, bytes[i]);
    writer.finish();
    return files::open_checkpoint(directory);
  }
};

std::string refusal_of_stored(Stored stored, const WeightFormat& format, const std::function<void(Stored&)>& change) {
  const test::TemporaryDirectory directory;
  change(stored);
  const auto checkpoint = stored.write(directory.path());
  return error_message([&] { StoredQuantizedTensor(*checkpoint, "m", format, kRows, kCols); });
}

std::string refusal_of_stored(const std::function<void(Stored&)>& change) {
  return refusal_of_stored(Stored(sample_tensor()), kFormat, change);
}

std::string refusal_of_8_bit_scales(const std::function<void(Stored&)>& change) {
  return refusal_of_stored(Stored(sample_of_8_bit_scales()), kFormatOf8BitScales, change);
}

TEST_CASE("a quantized matrix comes back from its parts as it was") {
  for (const WeightFormat& format : {kFormat, kFormatOf8BitScales}) {
    CAPTURE(format.scale_bits);
    const test::TemporaryDirectory directory;
    const CodeMatrix tensor = format.scale_bits == 8 ? sample_of_8_bit_scales() : sample_tensor();
    const auto checkpoint = Stored(tensor).write(directory.path());
    const StoredQuantizedTensor stored(*checkpoint, "m", format, kRows, kCols);
    const kernels::QuantizedMatrix matrix(stored.view());
    std::vector<float> row(kCols);
    for (std::size_t r = 0; r < kRows; ++r) {
      matrix.decode_row(r, row.data());
      for (std::size_t c = 0; c < kCols; ++c) CHECK(row[c] == expected_weight(tensor, r, c));
    }
  }
}

TEST_CASE("a copy of what was read is written as the same bytes") {
  for (const WeightFormat& format : {kFormat, kFormatOf8BitScales}) {
    CAPTURE(format.scale_bits);
    const test::TemporaryDirectory directory;
    const Stored original(format.scale_bits == 8 ? sample_of_8_bit_scales() : sample_tensor());
    CodeMatrix copy;
    {
      const auto checkpoint = original.write(directory.path());
      copy = CodeMatrix(StoredQuantizedTensor(*checkpoint, "m", format, kRows, kCols).view());
    }
    const Stored again(copy);
    CHECK(again.bytes == original.bytes);
    REQUIRE(again.plans.size() == original.plans.size());
    for (std::size_t i = 0; i < again.plans.size(); ++i) {
      CHECK(again.plans[i].name == original.plans[i].name);
      CHECK(again.plans[i].dtype == original.plans[i].dtype);
      CHECK(again.plans[i].shape == original.plans[i].shape);
    }
  }
}

TEST_CASE("scales of 8 bits are a byte for each group and 16 bits for each row") {
  const Stored stored(sample_of_8_bit_scales());
  const files::TensorPlan& codes = stored.plans[stored.index("m.weight_scale")];
  CHECK(codes.dtype == DType::kU8);
  CHECK(codes.shape == Shape{3, 2});
  const files::TensorPlan& rows = stored.plans[stored.index("m.weight_row_scale")];
  CHECK(rows.dtype == DType::kF16);
  CHECK(rows.shape == Shape{3});
}

TEST_CASE("what is wrong with scales of 8 bits is named") {
  CHECK(refusal_of_8_bit_scales([](Stored& s) { s.drop("m.weight_row_scale"); }) ==
        Contains("has no tensor \"m.weight_row_scale\""));
  CHECK(refusal_of_8_bit_scales([](Stored& s) { s.plans[s.index("m.weight_row_scale")].dtype = DType::kI16; }) ==
        Contains("m.weight_row_scale: has type I16"));
  CHECK(refusal_of_8_bit_scales([](Stored& s) { s.plans[s.index("m.weight_row_scale")].shape = {3, 1}; }) ==
        Contains("m.weight_row_scale: has shape [3, 1], expected [3]"));
  CHECK(refusal_of_8_bit_scales([](Stored& s) { s.plans[s.index("m.weight_scale")].shape = {2, 3}; }) ==
        Contains("m.weight_scale: has shape [2, 3], expected [3, 2]"));
  const auto with_row_scale = [](std::uint16_t bits) {
    return refusal_of_8_bit_scales([=](Stored& stored) {
      std::memcpy(stored.bytes[stored.index("m.weight_row_scale")].data() + sizeof bits, &bits, sizeof bits);
    });
  };
  CHECK(with_row_scale(0x7C00) == Contains("m.weight_row_scale: value 1 is NaN or infinite"));
  CHECK(with_row_scale(half(-1)) == Contains("m.weight_row_scale: value 1 is negative"));
  // The scales of one kind under the name of the other.
  CHECK(refusal_of_stored(Stored(sample_tensor()), kFormatOf8BitScales, [](Stored&) {}) ==
        Contains("m.weight_scale: has type F16"));
  CHECK(refusal_of_stored(Stored(sample_of_8_bit_scales()), kFormat, [](Stored&) {}) ==
        Contains("m.weight_scale: has type U8"));
}

TEST_CASE("a missing part is named") {
  for (const char* part : {"m.weight", "m.weight_scale", "m.weight_zero", "m.outlier_weight"}) {
    CHECK(refusal_of_stored([&](Stored& stored) { stored.drop(part); }) ==
          Contains("has no tensor \"" + std::string(part) + "\""));
  }
}

TEST_CASE("a part of a wrong shape or type is named") {
  CHECK(refusal_of_stored([](Stored& s) { s.plans[s.index("m.weight")].shape = {19, 3}; }) ==
        Contains("m.weight: has shape [19, 3], expected [3, 19]"));
  CHECK(refusal_of_stored([](Stored& s) { s.plans[s.index("m.weight_scale")].shape = {6}; }) ==
        Contains("m.weight_scale: has shape [6], expected [3, 2]"));
  CHECK(refusal_of_stored([](Stored& s) { s.plans[s.index("m.weight_scale")].dtype = DType::kI16; }) ==
        Contains("m.weight_scale: has type I16"));
  CHECK(refusal_of_stored([](Stored& s) { s.plans[s.index("m.weight_zero")].dtype = DType::kI8; }) ==
        Contains("m.weight_zero: has type I8"));
  CHECK(refusal_of_stored([](Stored& s) { s.plans[s.index("m.outlier_weight")].shape = {2, 3}; }) ==
        Contains("m.outlier_weight: has shape [2, 3], expected [3, 2]"));
  CHECK(refusal_of_stored([](Stored& s) { s.plans[s.index("m.outlier_columns")].dtype = DType::kF32; }) ==
        Contains("m.outlier_columns: must be a list of I32"));
}

TEST_CASE("outlier columns must ascend inside the matrix") {
  const auto with_columns = [](std::int32_t first, std::int32_t second) {
    return refusal_of_stored([&](Stored& stored) {
      std::vector<std::byte>& bytes = stored.bytes[stored.index("m.outlier_columns")];
      std::memcpy(bytes.data(), &first, sizeof first);
      std::memcpy(bytes.data() + sizeof first, &second, sizeof second);
    });
  };
  CHECK(with_columns(4, 36) == "no error");
  CHECK(with_columns(4, 4) == Contains("m.outlier_columns: must ascend and be less than 37, holds 4 after 4"));
  CHECK(with_columns(9, 4) == Contains("holds 4 after 9"));
  CHECK(with_columns(-1, 4) == Contains("holds -1 after -1"));
  CHECK(with_columns(4, 37) == Contains("holds 37 after 4"));
}

TEST_CASE("scales and outlier weights that are not finite are named") {
  for (const char* part : {"m.weight_scale", "m.outlier_weight"}) {
    CHECK(refusal_of_stored([&](Stored& stored) {
            const std::uint16_t infinity = 0x7C00;
            std::memcpy(stored.bytes[stored.index(part)].data() + 3 * sizeof infinity, &infinity, sizeof infinity);
          }) == Contains(std::string(part) + ": value 3 is NaN or infinite"));
  }
}

}  // namespace
}  // namespace ballast::formats
