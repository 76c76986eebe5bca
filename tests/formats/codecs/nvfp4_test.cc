// NVFP4 as compressed-tensors and ModelOpt store it, with values computed by hand.
#include "formats/codecs/nvfp4.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "error_message.h"
#include "files/json_reader.h"
#include "files/safetensors/safetensors_writer.h"
#include "formats/codecs/codec.h"
#include "temporary_directory.h"

namespace ballast::formats {
namespace {

using test::Contains;
using test::error_message;
using test::TemporaryDirectory;

using Bytes = std::vector<std::uint8_t>;

constexpr const char* kNvfp4Module = "model.layers.0.mlp.up_proj";
constexpr std::size_t kNvfp4Rows = 2;
constexpr std::size_t kNvfp4Cols = 32;

struct Nvfp4Tensor {
  DType dtype;
  Shape shape;
  Bytes bytes;
};

using Nvfp4Matrix = std::map<std::string, Nvfp4Tensor>;

Bytes repeated(std::uint8_t byte) {
  return Bytes(kNvfp4Group / 2, byte);
}

Bytes joined(const std::vector<Bytes>& parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Bytes bytes_of(float value) {
  Bytes bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

/// All codes, then three groups of two values each.
Bytes codes() {
  return joined({{0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE}, repeated(0x21), repeated(0x07), repeated(0xF7)});
}

/// 1, 448 (the largest), 2^-9 (the smallest) and 2 * (1 + 5/8).
Bytes scale_codes_of_groups() {
  return {0x38, 0x7E, 0x01, 0x45};
}

Nvfp4Matrix compressed_matrix() {
  return {{"weight_packed", {DType::kU8, {2, 16}, codes()}},
          {"weight_scale", {DType::kF8_E4M3, {2, 2}, scale_codes_of_groups()}},
          {"weight_global_scale", {DType::kF32, {1}, bytes_of(2.0F)}}};
}

Nvfp4Matrix modelopt_matrix() {
  return {{"weight", {DType::kU8, {2, 16}, codes()}},
          {"weight_scale", {DType::kF8_E4M3, {2, 2}, scale_codes_of_groups()}},
          {"weight_scale_2", {DType::kF32, {}, bytes_of(0.5F)}}};
}

/// Both programs halve the scales.
std::vector<float> expected_values() {
  std::vector<float> values = {0, 0.25F, 0.5F, 0.75F, 1, 1.5F, 2, 3, -0., -0.25F, -0.5F, -0.75F, -1, -1.5F, -2, -3};
  for (int i = 0; i < 8; ++i) values.insert(values.end(), {112, 224});
  for (int i = 0; i < 8; ++i) values.insert(values.end(), {6.0F / 1024, 0});
  for (int i = 0; i < 8; ++i) values.insert(values.end(), {9.75F, -9.75F});
  return values;
}

nlohmann::json compressed_settings() {
  return {
      {"quantization_config",
       {{"quant_method", "compressed-tensors"},
        {"format", "nvfp4-pack-quantized"},
        {"config_groups",
         {{"group_0",
           {{"format", "nvfp4-pack-quantized"},
            {"input_activations", {{"num_bits", 4}, {"type", "float"}, {"dynamic", "local"}}},
            {"weights", {{"num_bits", 4}, {"type", "float"}, {"strategy", "tensor_group"}, {"group_size", 16}}}}}}}}}};
}

nlohmann::json modelopt_settings() {
  return {{"quantization_config", {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}}}};
}

struct ReadMatrix {
  std::string type;
  std::vector<std::string> tensors;
  std::vector<float> values;
};

/// Stores the matrix as a checkpoint and returns what the codec of `config` reads.
ReadMatrix read_matrix(const nlohmann::json& config, const Nvfp4Matrix& matrix) {
  const TemporaryDirectory directory;
  std::vector<files::TensorPlan> plans;
  for (const auto& [part, tensor] : matrix) {
    plans.push_back({std::string(kNvfp4Module) + "." + part, tensor.dtype, tensor.shape});
  }
  files::SafetensorsWriter writer(directory.path(), plans, {});
  for (const auto& [part, tensor] : matrix) {
    writer.write(std::string(kNvfp4Module) + "." + part, std::as_bytes(std::span(tensor.bytes)));
  }
  writer.finish();
  test::write_file(directory / "config.json", config.dump());
  const auto checkpoint = files::open_checkpoint(directory.path());
  const auto reader = detect_codec(files::JsonReader(config, "config.json"));
  REQUIRE(reader != nullptr);
  REQUIRE(reader->has(*checkpoint, kNvfp4Module));
  CHECK(reader->stored_rows(*checkpoint, kNvfp4Module) == kNvfp4Rows);
  const StoredCodes stored = reader->codes(*checkpoint, kNvfp4Module, kNvfp4Rows, kNvfp4Cols);
  CHECK(!stored.layout);
  ReadMatrix read = {.type = stored.type,
                     .tensors = reader->checked_tensors(*checkpoint, kNvfp4Module, kNvfp4Rows, kNvfp4Cols),
                     .values = std::vector<float>(kNvfp4Rows * kNvfp4Cols)};
  for (std::size_t row = 0; row < kNvfp4Rows; ++row) stored.decode_row(row, read.values.data() + row * kNvfp4Cols);
  return read;
}

TEST_CASE("NVFP4 has the values that were computed by hand, whether the matrix's scale divides or multiplies") {
  const ReadMatrix compressed = read_matrix(compressed_settings(), compressed_matrix());
  CHECK(compressed.type == "compressed-tensors NVFP4");
  CHECK(compressed.tensors.size() == 3);
  CHECK(compressed.values == expected_values());
  const ReadMatrix modelopt = read_matrix(modelopt_settings(), modelopt_matrix());
  CHECK(modelopt.type == "ModelOpt NVFP4");
  CHECK(modelopt.tensors.size() == 3);
  CHECK(modelopt.values == expected_values());
}

TEST_CASE("a matrix of 8-bit floats in a checkpoint of ModelOpt is read as FP8") {
  nlohmann::json settings = modelopt_settings();
  settings["quantization_config"]["quant_algo"] = "MIXED_PRECISION";
  const ReadMatrix read = read_matrix(settings, {{"weight", {DType::kF8_E4M3, {2, 32}, Bytes(64, 0x45)}},
                                                 {"weight_scale", {DType::kF32, {}, bytes_of(0.5F)}}});
  CHECK(read.type == "ModelOpt FP8");
  CHECK(read.tensors.size() == 2);
  CHECK(read.values == std::vector<float>(64, 1.625F));
}

std::string refused(const nlohmann::json& config, Nvfp4Matrix matrix, const char* part, Nvfp4Tensor tensor) {
  matrix[part] = std::move(tensor);
  return error_message([&] { read_matrix(config, matrix); });
}

TEST_CASE("tensors of NVFP4 with other types, shapes or scales are named") {
  const nlohmann::json settings = compressed_settings();
  const Nvfp4Matrix matrix = compressed_matrix();
  CHECK(refused(settings, matrix, "weight_scale", {DType::kF8_E4M3, {2, 1}, {0x38, 0x38}}) ==
        Contains("up_proj.weight_scale: has shape [2, 1], expected [2, 2]"));
  CHECK(refused(settings, matrix, "weight_scale", {DType::kU8, {2, 2}, scale_codes_of_groups()}) ==
        Contains("up_proj.weight_scale: has type U8, must be F8_E4M3"));
  CHECK(refused(settings, matrix, "weight_scale", {DType::kF8_E4M3, {2, 2}, {0x38, 0x38, 0x7F, 0x38}}) ==
        Contains("up_proj.weight_scale: the scale of group 2 is not finite"));
  CHECK(refused(settings, matrix, "weight_global_scale", {DType::kF32, {1}, bytes_of(0)}) ==
        Contains("up_proj.weight_global_scale: is 0, which scales are divided by"));
  CHECK(refused(settings, matrix, "weight_global_scale", {DType::kF32, {2}, Bytes(8)}) ==
        Contains("up_proj.weight_global_scale: has shape [2], expected one value for the whole matrix"));
  CHECK(refused(modelopt_settings(), modelopt_matrix(), "weight_scale_2", {DType::kBF16, {1}, {0, 0x3F}}) ==
        Contains("up_proj.weight_scale_2: has type BF16, must be F32"));
  CHECK(refused(modelopt_settings(), modelopt_matrix(), "pre_quant_scale", {DType::kF32, {32}, Bytes(128)}) ==
        Contains("up_proj.pre_quant_scale: has factors of inputs, which are not applied"));
}

TEST_CASE("bytes of 4-bit floats are refused where the configuration has no such scheme") {
  nlohmann::json settings = compressed_settings();
  settings["quantization_config"]["config_groups"]["group_0"]["weights"] = {{"num_bits", 8}, {"type", "float"}};
  CHECK(error_message([&] { read_matrix(settings, compressed_matrix()); }) ==
        Contains("weight_packed: has type U8, but no config_group has floats of 4 bits"));
}

TEST_CASE("settings of ModelOpt that are not read are named") {
  nlohmann::json settings = modelopt_settings();
  settings["quantization_config"]["quant_algo"] = "MXFP8";
  CHECK(error_message([&] { detect_codec(files::JsonReader(settings, "config.json")); }) ==
        Contains("quantization_config.quant_algo: 'MXFP8' is not read: NVFP4, "));
  settings["quantization_config"].erase("quant_algo");
  CHECK(error_message([&] { detect_codec(files::JsonReader(settings, "config.json")); }) == Contains("quant_algo"));
}

}  // namespace
}  // namespace ballast::formats
