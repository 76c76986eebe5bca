#include "formats/codecs/compressed_tensors.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "ballast/error.h"
#include "formats/codecs/foreign_format.h"
#include "formats/codecs/integer_groups.h"
#include "formats/codecs/module_tensors.h"

namespace ballast::formats {

namespace {

using files::Checkpoint;

constexpr int kByteBits = 8;
constexpr std::uint8_t kMiddleOfByte = 128;

/// The tensors of one matrix, checked.
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

class CompressedTensorsFormat : public ForeignFormat {
 public:
  explicit CompressedTensorsFormat(const files::JsonReader& quantization)
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

  ForeignTensors checked_tensors(const Checkpoint& checkpoint, const std::string& module, std::size_t rows,
                                 std::size_t cols) const override {
    const ModuleTensors tensors(checkpoint, module);
    if (is_float8(tensors)) {
      const WeightScheme scheme = float_scheme(tensors);
      check_float8(tensors, "weight_scale", rows, cols, scheme.block ? &*scheme.block : nullptr);
      return {.names = {tensors.name("weight"), tensors.name("weight_scale")}, .type = "compressed-tensors FP8"};
    }
    const CompressedParts parts = checked_parts(tensors, rows, cols);
    ForeignTensors found{
        .names = {tensors.name(parts.packed ? "weight_packed" : "weight"), tensors.name("weight_scale")},
        .type = integer_type_name("compressed-tensors", parts.bits(), parts.group_size(cols), cols)};
    if (parts.packed) found.names.push_back(tensors.name("weight_shape"));
    if (parts.zeros) found.names.push_back(tensors.name("weight_zero_point"));
    if (parts.column_group) found.names.push_back(tensors.name("weight_g_idx"));
    return found;
  }

  ForeignMatrix matrix(const Checkpoint& checkpoint, const std::string& module, std::size_t rows,
                       std::size_t cols) const override {
    const ModuleTensors tensors(checkpoint, module);
    if (is_float8(tensors)) {
      const WeightScheme scheme = float_scheme(tensors);
      return float8_matrix(tensors, "weight_scale", rows, cols, scheme.block ? &*scheme.block : nullptr);
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
    return foreign_matrix(std::move(groups));
  }

 private:
  static bool is_float8(const ModuleTensors& tensors) {
    if (tensors.contains("weight_packed")) return false;
    return tensors.get("weight", {DType::kI8, DType::kF8_E4M3}).dtype == DType::kF8_E4M3;
  }

  WeightScheme float_scheme(const ModuleTensors& tensors) const {
    const auto scheme = std::ranges::find(schemes_, true, &WeightScheme::is_float);
    if (scheme == schemes_.end()) tensors.fail("weight", "has type F8_E4M3, but no config_group has floats");
    for (const WeightScheme& other : schemes_) {
      if (other.is_float && other.block != scheme->block) tensors.fail("weight", "may be of several config_groups");
    }
    return *scheme;
  }

  /// The only one that fits the tensors' shapes.
  WeightScheme integer_scheme(const ModuleTensors& tensors, const CompressedParts& parts, std::size_t cols) const {
    const WeightScheme* found = nullptr;
    for (const WeightScheme& scheme : schemes_) {
      const bool codes_fit = !parts.packed || axis_size(parts.codes, 1) == words_of_codes(cols, scheme.bits);
      const std::size_t groups = scheme.group_size == 0 ? 1 : round_up_division(cols, scheme.group_size);
      // Earlier versions wrote zero points of symmetric codes, too.
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

  /// Packed as the codes are, or a byte for each as earlier versions have them.
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
    if (std::ranges::all_of(groups, [](std::int32_t group) { return group == -1; })) return {};  // not in use
    for (const std::int32_t group : groups) {
      if (group < 0 || static_cast<std::size_t>(group) >= parts.groups) {
        tensors.fail("weight_g_idx", "names group " + std::to_string(group) + " of " + std::to_string(parts.groups));
      }
    }
    return groups;
  }

  /// As the codes are: from 0 on, where bytes in the file are around 0.
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

}  // namespace

std::unique_ptr<const ForeignFormat> make_compressed_tensors_format(const files::JsonReader& quantization) {
  return std::make_unique<const CompressedTensorsFormat>(quantization);
}

}  // namespace ballast::formats
