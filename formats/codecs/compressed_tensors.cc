// compressed-tensors: a bit string for each row, or bytes if activations are INT8 as well, or floats of 8 or 4 bits.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <span>
#include <utility>

#include "ballast/error.h"
#include "ballast/quantized.h"
#include "formats/codecs/code_words.h"
#include "formats/codecs/codec.h"
#include "formats/codecs/codec_parts.h"
#include "formats/codecs/compressed_tensors_config.h"
#include "formats/codecs/module_tensors.h"
#include "formats/codecs/nvfp4.h"
#include "formats/float_type.h"
#include "formats/integer_groups.h"

namespace ballast::formats {

namespace {

using files::Checkpoint;
using files::TensorPlan;
using nlohmann::json;

constexpr int kByteBits = 8;
constexpr std::uint8_t kMiddleOfByte = 128;

constexpr Nvfp4Tensors kCompressedFloat4 = {.type = "compressed-tensors NVFP4",
                                            .codes = "weight_packed",
                                            .scales = "weight_scale",
                                            .matrix_scale = "weight_global_scale",
                                            .divides = true};

/// The tensors of one matrix, after the checks.
struct CompressedParts {
  WeightScheme scheme;
  bool packed = false;
  std::size_t groups = 1;
  TensorView codes;
  TensorView scales;
  std::optional<TensorView> zeros;
  std::optional<TensorView> column_group;

  int bits() const { return packed ? scheme.bits : kByteBits; }
  std::size_t group_size(std::size_t cols) const { return scheme.group_size == 0 ? cols : scheme.group_size; }
};

class CompressedTensorsReader : public CodecReader {
 public:
  explicit CompressedTensorsReader(const files::JsonReader& quantization)
      : schemes_(read_weight_schemes(quantization)) {}

  bool has(const Checkpoint& checkpoint, const std::string& module) const override {
    if (checkpoint.contains(module + ".weight_packed")) return true;
    const std::string weight = module + ".weight";
    if (!checkpoint.contains(weight)) return false;
    const DType type = checkpoint.tensor(weight).dtype;
    return type == DType::kI8 || type == DType::kF8_E4M3 || checkpoint.contains(module + ".weight_scale");
  }

  std::size_t stored_rows(const Checkpoint& checkpoint, const std::string& module) const override {
    const std::string packed = module + ".weight_packed";
    return axis_size(checkpoint.tensor(checkpoint.contains(packed) ? packed : module + ".weight"), 0);
  }

  std::vector<std::string> checked_tensors(const Checkpoint& checkpoint, const std::string& module, std::size_t rows,
                                           std::size_t cols) const override {
    const ModuleTensors tensors(checkpoint, module);
    if (is_float4(tensors)) return check_nvfp4(tensors, kCompressedFloat4, rows, cols);
    if (is_float8(tensors)) {
      const WeightScheme scheme = float8_scheme(tensors);
      return check_float8(tensors, "weight_scale", rows, cols, scheme.block ? &*scheme.block : nullptr);
    }
    const CompressedParts parts = checked_parts(tensors, rows, cols);
    std::vector<std::string> names = {tensors.name(parts.packed ? "weight_packed" : "weight"),
                                      tensors.name("weight_scale")};
    if (parts.packed) names.push_back(tensors.name("weight_shape"));
    if (parts.zeros) names.push_back(tensors.name("weight_zero_point"));
    if (parts.column_group) names.push_back(tensors.name("weight_g_idx"));
    return names;
  }

  StoredCodes codes(const Checkpoint& checkpoint, const std::string& module, std::size_t rows,
                    std::size_t cols) const override {
    const ModuleTensors tensors(checkpoint, module);
    if (is_float4(tensors)) return nvfp4_codes(tensors, kCompressedFloat4, rows, cols);
    if (is_float8(tensors)) {
      const WeightScheme scheme = float8_scheme(tensors);
      return float8_codes("compressed-tensors FP8", tensors, "weight_scale", rows, cols,
                          scheme.block ? &*scheme.block : nullptr);
    }
    const CompressedParts parts = checked_parts(tensors, rows, cols);
    if (parts.packed) check_shape_values(tensors, rows, cols);
    IntegerGroups groups;
    groups.rows = rows;
    groups.cols = cols;
    groups.bits = parts.bits();
    groups.group_size = parts.group_size(cols);
    groups.scales = tensors.floats("weight_scale", parts.scales);
    if (groups.scales.size() == 1) groups.scales.assign(rows, groups.scales.front());
    groups.column_group = column_groups(tensors, parts, cols);
    groups.zeros = zeros_of(tensors, parts, rows);
    groups.read_codes = code_reader(parts, cols);
    return stored_codes("compressed-tensors", std::move(groups));
  }

 private:
  /// Returns whether the codes are 4-bit floats. Throws Error if no scheme has these.
  bool is_float4(const ModuleTensors& tensors) const {
    if (!tensors.contains("weight_packed")) return false;
    if (tensors.get("weight_packed", {DType::kI32, DType::kU8}).dtype == DType::kI32) return false;
    if (std::ranges::none_of(schemes_, &WeightScheme::is_float4)) {
      tensors.fail("weight_packed", "has type U8, but no config_group has floats of 4 bits");
    }
    return true;
  }

  static bool is_float8(const ModuleTensors& tensors) {
    if (tensors.contains("weight_packed")) return false;
    return tensors.get("weight", {DType::kI8, DType::kF8_E4M3}).dtype == DType::kF8_E4M3;
  }

  WeightScheme float8_scheme(const ModuleTensors& tensors) const {
    const auto scheme = std::ranges::find_if(schemes_, &WeightScheme::is_float8);
    if (scheme == schemes_.end()) tensors.fail("weight", "has type F8_E4M3, but no config_group has floats of 8 bits");
    for (const WeightScheme& other : schemes_) {
      if (other.is_float8() && other.block != scheme->block) tensors.fail("weight", "may be of several config_groups");
    }
    return *scheme;
  }

  /// Returns the only scheme that fits the tensors' shapes.
  WeightScheme integer_scheme(const ModuleTensors& tensors, const CompressedParts& parts, std::size_t cols) const {
    const WeightScheme* found = nullptr;
    for (const WeightScheme& scheme : schemes_) {
      const bool codes_fit = !parts.packed || axis_size(parts.codes, 1) == words_of_codes(cols, scheme.bits);
      const std::size_t groups = scheme.group_size == 0 ? 1 : round_up_division(cols, scheme.group_size);
      // Earlier versions also wrote zero points for symmetric codes.
      const bool has_zeros = tensors.contains("weight_zero_point");
      if (scheme.is_float || !codes_fit || groups != parts.groups || (!scheme.symmetric && !has_zeros)) continue;
      const bool alike = found != nullptr && (!parts.packed || found->bits == scheme.bits) &&
                         (groups == 1 || found->group_size == scheme.group_size);
      if (found != nullptr && !alike) tensors.fail("weight_scale", "may be of several config_groups");
      found = &scheme;
    }
    if (found != nullptr) return *found;
    tensors.fail("weight_scale", "with " + std::to_string(parts.groups) + " groups, codes of shape " +
                                     shape_string(parts.codes.shape) + " and " +
                                     (tensors.contains("weight_zero_point") ? "" : "no ") +
                                     "zero points fit no config_group, for " + std::to_string(cols) + " columns");
  }

  CompressedParts checked_parts(const ModuleTensors& tensors, std::size_t rows, std::size_t cols) const {
    CompressedParts parts;
    parts.packed = tensors.contains("weight_packed");
    parts.codes = parts.packed ? tensors.get("weight_packed", {DType::kI32}) : tensors.get("weight", {DType::kI8});
    parts.scales = tensors.get("weight_scale", {DType::kF16, DType::kBF16, DType::kF32});
    const bool of_all = element_count(parts.scales.shape) == 1;
    parts.groups = of_all || parts.scales.shape.size() == 1 ? 1 : axis_size(parts.scales, 1);
    if (!of_all && parts.scales.shape.size() == 1) {
      parts.scales = tensors.get_floats("weight_scale", {rows});
    } else if (!of_all) {
      parts.scales = tensors.get_floats("weight_scale", {rows, parts.groups});
    }
    parts.scheme = integer_scheme(tensors, parts, cols);
    if (parts.groups == 1) parts.scheme.group_size = 0;
    if (parts.packed) {
      parts.codes = tensors.get("weight_packed", {DType::kI32}, {rows, words_of_codes(cols, parts.scheme.bits)});
      tensors.get("weight_shape", {DType::kI64, DType::kI32}, {2});
    } else {
      parts.codes = tensors.get("weight", {DType::kI8}, {rows, cols});
    }
    if (tensors.contains("weight_zero_point")) parts.zeros = checked_zeros(tensors, parts, rows);
    if (tensors.contains("weight_g_idx")) parts.column_group = tensors.get("weight_g_idx", {DType::kI32}, {cols});
    return parts;
  }

  /// Returns the zero points, packed as the codes are, or (in earlier versions) one byte each.
  static TensorView checked_zeros(const ModuleTensors& tensors, const CompressedParts& parts, std::size_t rows) {
    TensorView zeros = tensors.get("weight_zero_point", {DType::kI8, DType::kI32});
    if (zeros.dtype == DType::kI32) {
      return tensors.get("weight_zero_point", {DType::kI32}, {words_of_codes(rows, parts.scheme.bits), parts.groups});
    }
    if (static_cast<std::size_t>(element_count(zeros.shape)) == 1 && parts.groups == 1) return zeros;
    return tensors.get("weight_zero_point", {DType::kI8}, {rows, parts.groups});
  }

  static void check_shape_values(const ModuleTensors& tensors, std::size_t rows, std::size_t cols) {
    const TensorView view = tensors.get("weight_shape", {DType::kI64, DType::kI32}, {2});
    const std::size_t size = dtype_info(view.dtype).block_bytes;
    Shape stored;
    for (std::size_t axis = 0; axis < 2; ++axis) {
      std::int64_t wide = 0;
      std::int32_t narrow = 0;
      if (view.dtype == DType::kI64) std::memcpy(&wide, view.bytes.data() + axis * size, size);
      if (view.dtype == DType::kI32) std::memcpy(&narrow, view.bytes.data() + axis * size, size);
      stored.push_back(view.dtype == DType::kI64 ? wide : narrow);
    }
    const Shape expected = {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols)};
    if (stored != expected) {
      tensors.fail("weight_shape", "holds " + shape_string(stored) + ", expected " + shape_string(expected));
    }
  }

  static std::vector<std::int32_t> column_groups(const ModuleTensors& tensors, const CompressedParts& parts,
                                                 std::size_t cols) {
    if (!parts.column_group) return {};
    std::vector<std::int32_t> groups(cols);
    std::memcpy(groups.data(), parts.column_group->bytes.data(), cols * sizeof(std::int32_t));
    if (std::ranges::all_of(groups, [](std::int32_t group) { return group == -1; })) return {};  // unused
    for (const std::int32_t group : groups) {
      if (group < 0 || static_cast<std::size_t>(group) >= parts.groups) {
        tensors.fail("weight_g_idx", "names group " + std::to_string(group) + " of " + std::to_string(parts.groups));
      }
    }
    return groups;
  }

  /// Returns zero points that start from 0, as the codes do; in the file, bytes are centred on 0.
  static std::vector<std::uint8_t> zeros_of(const ModuleTensors& tensors, const CompressedParts& parts,
                                            std::size_t rows) {
    if (!parts.zeros) return {};
    const std::span<const std::byte> bytes = parts.zeros->bytes;
    const int middle = 1 << (parts.bits() - 1);
    std::vector<std::uint8_t> zeros(rows * parts.groups);
    for (std::size_t i = 0; i < zeros.size(); ++i) {
      if (parts.zeros->dtype == DType::kI32) {
        const std::byte* words = bytes.data() + i % parts.groups * sizeof(std::uint32_t);
        zeros[i] = static_cast<std::uint8_t>(code_at(words, parts.groups, i / parts.groups, parts.bits()));
        continue;
      }
      const int zero = std::to_integer<std::int8_t>(bytes[bytes.size() == 1 ? 0 : i]) + middle;
      if (zero < 0 || zero >= 2 * middle) {
        tensors.fail("weight_zero_point", "holds " + std::to_string(zero - middle) + ", no code of " +
                                              std::to_string(parts.bits()) + " bits");
      }
      zeros[i] = static_cast<std::uint8_t>(zero);
    }
    return zeros;
  }

  static std::function<void(std::size_t, std::uint8_t*)> code_reader(const CompressedParts& parts, std::size_t cols) {
    if (!parts.packed) {
      return [bytes = parts.codes.bytes, cols](std::size_t row, std::uint8_t* dst) {
        const std::byte* codes = bytes.data() + row * cols;
        for (std::size_t c = 0; c < cols; ++c) dst[c] = std::to_integer<std::uint8_t>(codes[c]) ^ kMiddleOfByte;
      };
    }
    const std::size_t row_bytes = words_of_codes(cols, parts.scheme.bits) * sizeof(std::uint32_t);
    return [bytes = parts.codes.bytes, row_bytes, cols, bits = parts.scheme.bits](std::size_t row, std::uint8_t* dst) {
      const std::byte* words = bytes.data() + row * row_bytes;
      for (std::size_t c = 0; c < cols; ++c) dst[c] = static_cast<std::uint8_t>(code_at(words, 1, c, bits));
    };
  }

  std::vector<WeightScheme> schemes_;
};

constexpr std::array kCompressedBits = {4, 5, 6, 8};

/// Returns whether the format is that of W8A8: one scale per row, one byte per weight.
bool is_unpacked(const WeightFormat& format) {
  return format.bits == kByteBits && format.group_size == 0;
}

class CompressedTensorsWriter : public CodecWriter {
 public:
  std::string name() const override { return "compressed-tensors"; }

  std::vector<WeightFormat> candidates() const override { return symmetric_formats(); }

  WeightFormat fitting(const WeightFormat& format, ActivationType activations) const override {
    if (activations != ActivationType::kInt8) {
      return {.bits = format.bits, .group_size = format.group_size == 0 ? 128 : format.group_size};
    }
    if (format.bits == kByteBits) return {.bits = kByteBits, .group_size = 0};
    throw Error(name(), "has no INT8 activations with weights of " + std::to_string(format.bits) +
                            " bits: choose w4a16, w8a16 or w8a8");
  }

  /// All matrices of a file have the same activations.
  WeightFormat named(const WeightFormat& format, ActivationType activations) const override {
    if (activations == ActivationType::kInt8) return fitting(format, activations);
    if (is_unpacked(format)) {
      throw Error(name(),
                  "has one scale per row only with INT8 activations: name a group size for " + format_name(format));
    }
    return format;
  }

  bool quantizes_head() const override { return true; }

  bool holds(const PlannedMatrix& matrix) const override {
    const WeightFormat& format = matrix.format;
    const bool fits = format.group_size == 0 ? is_unpacked(format) : matrix.cols % format.group_size == 0;
    return format.is_integer() && format.symmetric && format.scale_bits == 16 && fits &&
           std::ranges::find(kCompressedBits, format.bits) != kCompressedBits.end();
  }

  std::vector<TensorPlan> tensors(const PlannedMatrix& matrix, DType scale_type) const override {
    const auto rows = axis(matrix.rows);
    const TensorPlan scales = {matrix.name + ".weight_scale", scale_type, {rows, axis(groups_of(matrix))}};
    if (is_unpacked(matrix.format)) return {{matrix.name + ".weight", DType::kI8, {rows, axis(matrix.cols)}}, scales};
    const auto words = axis(words_of_codes(matrix.cols, matrix.format.bits));
    return {{matrix.name + ".weight_packed", DType::kI32, {rows, words}},
            scales,
            {matrix.name + ".weight_shape", DType::kI64, {2}}};
  }

  json configuration(const PlannedModel& model, ActivationType activations) const override {
    std::map<std::pair<int, std::size_t>, std::vector<std::string>> modules;
    for (const PlannedMatrix& matrix : model.quantized) {
      modules[{matrix.format.bits, matrix.format.group_size}].push_back(matrix.name);
    }
    const bool int8 = activations == ActivationType::kInt8;
    const char* format = int8 ? "int-quantized" : "pack-quantized";
    json groups = json::object();
    for (const auto& [scheme, names] : modules) {
      const auto [bits, group_size] = scheme;
      json weights = {{"num_bits", bits},    {"type", "int"},
                      {"symmetric", true},   {"strategy", group_size == 0 ? "channel" : "group"},
                      {"dynamic", false},    {"group_size", group_size == 0 ? json() : json(group_size)},
                      {"observer", "minmax"}};
      json inputs;
      if (int8) {
        inputs = {{"num_bits", 8}, {"type", "int"}, {"symmetric", true}, {"strategy", "token"}, {"dynamic", true}};
      }
      // If all linears have one scheme, the class is sufficient; otherwise each linear is named. Names have precedence
      // over expressions and classes.
      groups["group_" + std::to_string(groups.size())] = {
          {"targets", modules.size() == 1 ? std::vector<std::string>{"Linear"} : names},
          {"weights", weights},
          {"input_activations", inputs},
          {"output_activations", nullptr},
          {"format", format}};
    }
    return {{"quant_method", "compressed-tensors"}, {"format", format},
            {"quantization_status", "compressed"},  {"config_groups", groups},
            {"ignore", model.plain_linears},        {"kv_cache_scheme", nullptr},
            {"global_compression_ratio", nullptr}};
  }

 private:
  std::vector<std::vector<std::byte>> contents(const PlannedMatrix& matrix, const CodeMatrix& codes,
                                               DType scale_type) const override {
    const QuantizedView view = codes.view();
    std::vector<float> scales;
    for (std::size_t row = 0; row < view.rows; ++row) {
      const std::vector<float> row_scales = group_scales(view, row);
      scales.insert(scales.end(), row_scales.begin(), row_scales.end());
    }
    std::vector<std::byte> scale_bytes = encode_floats(scales, scale_type);
    if (is_unpacked(matrix.format)) {
      std::vector<std::uint8_t> bytes(view.codes.begin(), view.codes.end());
      for (std::uint8_t& code : bytes) code ^= kMiddleOfByte;
      return {raw_bytes(bytes), std::move(scale_bytes)};
    }
    const std::size_t stored_row_bytes = words_of_codes(view.cols, view.bits) * sizeof(std::uint32_t);
    const std::size_t row_bytes = packed_row_bytes(view.cols, view.bits);
    std::vector<std::byte> packed(view.rows * stored_row_bytes);
    for (std::size_t row = 0; row < view.rows; ++row) {
      std::memcpy(packed.data() + row * stored_row_bytes, view.codes.data() + row * row_bytes, row_bytes);
    }
    const std::vector<std::int64_t> shape = {axis(view.rows), axis(view.cols)};
    return {std::move(packed), std::move(scale_bytes), raw_bytes(shape)};
  }
};

const CompressedTensorsWriter kCompressedTensorsWriter{};

}  // namespace

const Codec kCompressedTensorsCodec = {
    .detect =
        [](const files::JsonReader& quantization) {
          return quantization.text("quant_method", "") == "compressed-tensors";
        },
    .make_reader = [](const files::JsonReader& quantization) -> std::unique_ptr<const CodecReader> {
      return std::make_unique<const CompressedTensorsReader>(quantization);
    },
    .writer = &kCompressedTensorsWriter};

}  // namespace ballast::formats
