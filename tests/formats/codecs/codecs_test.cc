// What a codec writes, the same codec reads.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "error_message.h"
#include "files/json_reader.h"
#include "files/safetensors/safetensors_writer.h"
#include "formats/code_matrix.h"
#include "formats/codecs/code_words.h"
#include "formats/codecs/codec.h"
#include "kernels/matrix/float_matrix.h"
#include "kernels/matrix/quantized_matrix.h"
#include "temporary_directory.h"

namespace ballast::formats {
namespace {

using test::TemporaryDirectory;

constexpr const char* kModule = "model.layers.0.mlp.up_proj";
constexpr std::size_t kCodecRows = 24;
constexpr std::size_t kCodecCols = 256;

struct WrittenFormats {
  const CodecWriter* writer = nullptr;
  std::vector<WeightFormat> formats;
  ActivationType activations = ActivationType::kInt16;
};

WeightFormat symmetric(int bits, std::size_t group_size) {
  return {.bits = bits, .group_size = group_size};
}

std::vector<WrittenFormats> written_formats() {
  return {{kCompressedTensorsCodec.writer,
           {symmetric(4, 32), symmetric(5, 64), symmetric(6, 128), symmetric(8, 32), symmetric(8, kCodecCols)}},
          {kCompressedTensorsCodec.writer, {symmetric(8, 0)}, ActivationType::kInt8},
          {kMlxCodec.writer, affine_formats()},
          {kGptqCodec.writer, {symmetric(4, 32), symmetric(4, 128), symmetric(8, 64)}},
          {kAwqCodec.writer,
           {{.bits = 4, .group_size = 32, .symmetric = false}, {.bits = 4, .group_size = 128, .symmetric = false}}}};
}

std::uint16_t half(float value, DType type) {
  std::uint16_t bits = 0;
  const auto float_type = type == DType::kF16 ? kernels::FloatType::kF16 : kernels::FloatType::kBF16;
  kernels::from_float(&value, 1, float_type, &bits);
  return bits;
}

/// Codes and zero points of all values; of 8 bits with offsets, those of symmetric codes, which alone kernels multiply.
CodeMatrix random_matrix(const WeightFormat& format, DType type) {
  std::mt19937 random(3);
  CodeMatrix matrix(kCodecRows, kCodecCols, format, {}, type);
  for (std::uint8_t& code : matrix.codes) code = static_cast<std::uint8_t>(random());
  for (std::uint8_t& zero : matrix.zeros) zero = static_cast<std::uint8_t>(random());
  for (std::size_t i = 0; i < matrix.scales.size(); ++i) {
    const float scale = static_cast<float>(1 + random() % 100) / 64.0F;
    matrix.scales[i] = half(scale, type);
    if (matrix.offsets.empty()) continue;
    const float offset = format.bits == 8 ? -128.0F * scale : -static_cast<float>(random() % 100) / 8.0F;
    matrix.offsets[i] = half(offset, type);
  }
  return matrix;
}

/// Writes a model of one matrix and returns its config.json.
nlohmann::json write_model(const WrittenFormats& written, const PlannedMatrix& plan, const CodeMatrix& matrix,
                           DType type, const std::filesystem::path& directory) {
  const std::vector<files::TensorPlan> planned = written.writer->tensors(plan, type);
  files::SafetensorsWriter writer(directory, planned, {});
  std::size_t next = 0;
  for (const EncodedTensor& tensor : written.writer->encode(plan, matrix, type)) {
    CHECK(tensor.plan.name == planned[next].name);
    CHECK(tensor.plan.dtype == planned[next].dtype);
    CHECK(tensor.plan.shape == planned[next++].shape);
    writer.write(tensor.plan.name, tensor.bytes);
  }
  CHECK(next == planned.size());
  writer.finish();
  nlohmann::json config;
  for (const std::string& key : written.writer->configuration_keys()) {
    config[key] = written.writer->configuration({.quantized = {plan}, .plain_linears = {}}, written.activations);
  }
  test::write_file(directory / "config.json", config.dump());
  return config;
}

TEST_CASE("matrices are read back to the last bit, in the tensors that were planned") {
  for (const WrittenFormats& written : written_formats()) {
    for (const WeightFormat& format : written.formats) {
      for (const DType type : {DType::kF16, DType::kBF16}) {
        CAPTURE(written.writer->name());
        CAPTURE(format_name(format));
        const PlannedMatrix plan = {.name = kModule, .rows = kCodecRows, .cols = kCodecCols, .format = format};
        REQUIRE(written.writer->holds(plan));
        const CodeMatrix matrix = random_matrix(format, type);
        const TemporaryDirectory directory;
        const nlohmann::json config = write_model(written, plan, matrix, type, directory.path());
        const auto checkpoint = files::open_checkpoint(directory.path());
        const auto reader = detect_codec(files::JsonReader(config, "config.json"));
        REQUIRE(reader->has(*checkpoint, kModule));
        CHECK(reader->stored_rows(*checkpoint, kModule) == kCodecRows);
        CHECK(reader->checked_tensors(*checkpoint, kModule, kCodecRows, kCodecCols).size() ==
              written.writer->tensors(plan, type).size());
        const StoredCodes stored = reader->codes(*checkpoint, kModule, kCodecRows, kCodecCols);
        CHECK(stored.layout.has_value());
        const std::vector<float> expected = matrix.decoded();
        std::vector<float> row(kCodecCols);
        for (std::size_t r = 0; r < kCodecRows; ++r) {
          stored.decode_row(r, row.data());
          CHECK(std::ranges::equal(row, std::span(expected).subspan(r * kCodecCols, kCodecCols)));
        }
      }
    }
  }
}

TEST_CASE("kernels decode a matrix of codes as it decodes itself") {
  std::vector<WeightFormat> formats = affine_formats();
  for (const char* name : {"int4-g32", "int5-g64-asym", "int6-g128-s8", "int8-channel", "nl2-g128-s8", "nl3-g32-s8",
                           "nl4-g32", "nl5-g64-s8", "nl6-g128", "nl7-g32", "q8_0", "q4_0"}) {
    formats.push_back(parse_format(name));
  }
  for (const WeightFormat& format : formats) {
    CAPTURE(format_name(format));
    CodeMatrix matrix = random_matrix(format, DType::kF16);
    if (format.kind == WeightFormat::Kind::kBlocks) {  // their scales are 16-bit floats at the start of each block
      const DTypeInfo& info = dtype_info(format.block_type);
      for (std::size_t at = 0; at < matrix.codes.size(); at += info.block_bytes) matrix.codes[at + 1] = 0x3C;
    }
    const std::vector<float> expected = matrix.decoded();
    const kernels::QuantizedMatrix packed = matrix.packed();
    std::vector<float> row(kCodecCols);
    for (std::size_t r = 0; r < kCodecRows; ++r) {
      packed.decode_row(r, row.data());
      CHECK(std::ranges::equal(row, std::span(expected).subspan(r * kCodecCols, kCodecCols)));
    }
  }
}

TEST_CASE("codes of every width are read from words as they were put there, for every stride") {
  std::mt19937 random(7);
  for (int bits = 2; bits <= 8; ++bits) {
    for (const std::size_t stride : {std::size_t{1}, std::size_t{3}}) {
      CAPTURE(bits);
      CAPTURE(stride);
      constexpr std::size_t kCount = 67;
      std::vector<unsigned> codes(kCount);
      for (unsigned& code : codes) code = static_cast<unsigned>(random()) & ((1U << bits) - 1);
      std::vector<std::uint32_t> words(words_of_codes(kCount, bits) * stride);
      for (std::size_t i = 0; i < kCount; ++i) put_code(codes[i], words.data(), stride, i, bits);
      for (std::size_t i = 0; i < kCount; ++i) {
        CHECK(code_at(std::as_bytes(std::span(words)).data(), stride, i, bits) == codes[i]);
      }
    }
  }
}

}  // namespace
}  // namespace ballast::formats
