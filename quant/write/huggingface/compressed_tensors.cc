// compressed-tensors: a dense string of bits for each row, or bytes where activations are INT8, too.
#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "ballast/error.h"
#include "ballast/quantized.h"
#include "quant/write/float_type.h"
#include "quant/write/huggingface/layout_parts.h"
#include "quant/write/huggingface/matrix_layout.h"

namespace ballast::quant {

namespace {

using files::TensorPlan;
using nlohmann::json;

constexpr std::array kCompressedBits = {4, 5, 6, 8};
constexpr std::uint8_t kSignOfByte = 0x80;

std::size_t row_words(std::size_t cols, int bits) {
  return (packed_row_bytes(cols, bits) + kWordBytes - 1) / kWordBytes;
}

/// Of W8A8: one scale for each row, a byte for each weight.
bool is_unpacked(const WeightFormat& format) {
  return format.bits == 8 && format.group_size == 0;
}

class CompressedTensorsLayout : public MatrixLayout {
 public:
  std::string name() const override { return "compressed-tensors"; }

  std::vector<WeightFormat> candidates() const override { return symmetric_formats(); }

  WeightFormat fitting(const WeightFormat& format, bool int8_activations) const override {
    if (!int8_activations) {
      return {.bits = format.bits, .group_size = format.group_size == 0 ? 128 : format.group_size};
    }
    if (format.bits == 8) return {.bits = 8, .group_size = 0};
    throw Error(name(), "has no INT8 activations beside weights of " + std::to_string(format.bits) +
                            " bits: choose w4a16, w8a16 or w8a8");
  }

  /// As the file is said to be, which is so for all its matrices.
  WeightFormat named(const WeightFormat& format, bool int8_activations) const override {
    if (int8_activations) return fitting(format, int8_activations);
    if (is_unpacked(format)) {
      throw Error(name(), "has one scale for each row beside INT8 activations alone: name a size of groups for " +
                              format_name(format));
    }
    return format;
  }

  bool quantizes_head() const override { return true; }

  bool holds(const ModulePlan& module) const override {
    const WeightFormat& format = module.format;
    const bool fits = format.group_size == 0 ? is_unpacked(format) : module.cols % format.group_size == 0;
    return format.kind == WeightFormat::Kind::kInteger && format.symmetric && format.scale_bits == 16 && fits &&
           std::ranges::find(kCompressedBits, format.bits) != kCompressedBits.end();
  }

  std::vector<TensorPlan> tensors(const ModulePlan& module, DType scale_type) const override {
    const auto rows = axis(module.rows);
    const TensorPlan scales = {module.name + ".weight_scale", scale_type, {rows, axis(groups_of(module))}};
    if (is_unpacked(module.format)) {
      return {{module.name + ".weight", DType::kI8, {rows, axis(module.cols)}}, scales};
    }
    return {{module.name + ".weight_packed", DType::kI32, {rows, axis(row_words(module.cols, module.format.bits))}},
            scales,
            {module.name + ".weight_shape", DType::kI64, {2}}};
  }

  json configuration(std::span<const ModulePlan> model, bool int8_activations) const override {
    std::map<std::pair<int, std::size_t>, std::vector<std::string>> modules;
    for (const ModulePlan* module : quantized_modules(model)) {
      modules[{module->format.bits, module->format.group_size}].push_back(module->name);
    }
    const char* format = int8_activations ? "int-quantized" : "pack-quantized";
    json groups = json::object();
    for (const auto& [scheme, names] : modules) {
      const auto [bits, group_size] = scheme;
      json weights = {{"num_bits", bits},    {"type", "int"},
                      {"symmetric", true},   {"strategy", group_size == 0 ? "channel" : "group"},
                      {"dynamic", false},    {"group_size", group_size == 0 ? json() : json(group_size)},
                      {"observer", "minmax"}};
      json activations;
      if (int8_activations) {
        activations = {{"num_bits", 8}, {"type", "int"}, {"symmetric", true}, {"strategy", "token"}, {"dynamic", true}};
      }
      // Of one scheme for all linears the class is enough; else names, which come before expressions and classes.
      groups["group_" + std::to_string(groups.size())] = {
          {"targets", modules.size() == 1 ? std::vector<std::string>{"Linear"} : names},
          {"weights", weights},
          {"input_activations", activations},
          {"output_activations", nullptr},
          {"format", format}};
    }
    return {{"quant_method", "compressed-tensors"}, {"format", format},
            {"quantization_status", "compressed"},  {"config_groups", groups},
            {"ignore", plain_linears(model)},       {"kv_cache_scheme", nullptr},
            {"global_compression_ratio", nullptr}};
  }

 private:
  std::vector<std::vector<std::byte>> contents(const ModulePlan& module, const RoundedMatrix& matrix,
                                               DType scale_type) const override {
    const auto& tensor = std::get<formats::QuantizedTensor>(matrix);
    std::vector<std::byte> scales = encode_floats(scales_of(tensor), scale_type);
    if (is_unpacked(module.format)) {
      std::vector<std::uint8_t> codes = codes_of(tensor);
      for (std::uint8_t& code : codes) code ^= kSignOfByte;
      return {raw_bytes(codes), std::move(scales)};
    }
    const std::size_t stored_row_bytes = row_words(tensor.cols, tensor.bits) * kWordBytes;
    const std::size_t row_bytes = packed_row_bytes(tensor.cols, tensor.bits);
    std::vector<std::byte> packed(tensor.rows * stored_row_bytes);
    for (std::size_t r = 0; r < tensor.rows; ++r) {
      std::ranges::copy(std::as_bytes(std::span(tensor.codes).subspan(r * row_bytes, row_bytes)),
                        packed.begin() + static_cast<std::ptrdiff_t>(r * stored_row_bytes));
    }
    const std::vector<std::int64_t> shape = {axis(tensor.rows), axis(tensor.cols)};
    return {std::move(packed), std::move(scales), raw_bytes(shape)};
  }
};

}  // namespace

std::unique_ptr<MatrixLayout> make_compressed_tensors_layout() {
  return std::make_unique<CompressedTensorsLayout>();
}

}  // namespace ballast::quant
