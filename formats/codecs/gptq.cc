// GPTQ: codes packed along the columns of [cols, rows], zero points along its rows, a group's number for each column.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "formats/codecs/foreign_format.h"
#include "formats/codecs/integer_groups.h"
#include "formats/codecs/module_tensors.h"

namespace ballast::formats {

namespace {

using files::Checkpoint;

constexpr std::array kGptqBits = {2, 3, 4, 8};

class GptqFormat : public ForeignFormat {
 public:
  explicit GptqFormat(const files::JsonReader& quantization) {
    const std::string_view field = quantization.has("checkpoint_format") ? "checkpoint_format" : "format";
    const std::string version = quantization.text(field, "gptq");
    if (version != "gptq" && version != "gptq_v2") {
      quantization.fail(field, "'" + version + "' is not read: gptq and gptq_v2 are");
    }
    zeros_less_one_ = version == "gptq";
    bits_ = quantization.at("bits").integer<int>();
    if (std::ranges::find(kGptqBits, bits_) == kGptqBits.end()) quantization.fail("bits", "must be 2, 3, 4 or 8");
    const auto group_size = quantization.at("group_size").integer<std::int64_t>(-1, 1 << 30);
    group_size_ = group_size > 0 ? static_cast<std::size_t>(group_size) : 0;
    exceptions_ = quantization.has("dynamic");
  }

  bool has(const Checkpoint& checkpoint, const std::string& module) const override {
    return checkpoint.contains(module + ".qweight");
  }

  std::size_t stored_rows(const Checkpoint& checkpoint, const std::string& module) const override {
    return axis_size(checkpoint.tensor(module + ".qweight"), 1);
  }

  ForeignTensors checked_tensors(const Checkpoint& checkpoint, const std::string& module, std::size_t rows,
                                 std::size_t cols) const override {
    const ModuleTensors tensors(checkpoint, module);
    const Parts parts = checked_parts(tensors, rows, cols);
    ForeignTensors found{.names = {tensors.name("qweight"), tensors.name("qzeros"), tensors.name("scales")},
                         .type = integer_type_name("GPTQ", parts.bits, parts.group_size, cols)};
    if (parts.column_group) found.names.push_back(tensors.name("g_idx"));
    return found;
  }

  ForeignMatrix matrix(const Checkpoint& checkpoint, const std::string& module, std::size_t rows,
                       std::size_t cols) const override {
    const ModuleTensors tensors(checkpoint, module);
    const Parts parts = checked_parts(tensors, rows, cols);
    const std::vector<float> scales = tensors.floats("scales", parts.scales);  // [groups][rows]
    IntegerGroups groups;
    groups.rows = rows;
    groups.cols = cols;
    groups.bits = parts.bits;
    groups.group_size = parts.group_size;
    groups.column_group = column_groups(tensors, parts, cols);
    groups.scales.resize(rows * parts.groups);
    groups.zeros.resize(rows * parts.groups);
    const std::size_t zero_words = words_of_codes(rows, parts.bits);
    // The zero that is stored is one less; that of a zero of 0 wraps.
    const unsigned mask = (1U << static_cast<unsigned>(parts.bits)) - 1;
    for (std::size_t group = 0; group < parts.groups; ++group) {
      const std::byte* words = parts.zeros.bytes.data() + group * zero_words * sizeof(std::uint32_t);
      for (std::size_t row = 0; row < rows; ++row) {
        const unsigned zero = code_at(words, 1, row, parts.bits) + (zeros_less_one_ ? 1 : 0);
        groups.zeros[row * parts.groups + group] = static_cast<std::uint8_t>(zero & mask);
        groups.scales[row * parts.groups + group] = scales[group * rows + row];
      }
    }
    groups.read_codes = [bytes = parts.codes.bytes, rows, cols, bits = parts.bits](std::size_t row, std::uint8_t* dst) {
      const std::byte* words = bytes.data() + row * sizeof(std::uint32_t);
      for (std::size_t c = 0; c < cols; ++c) dst[c] = static_cast<std::uint8_t>(code_at(words, rows, c, bits));
    };
    return foreign_matrix(std::move(groups));
  }

 private:
  struct Parts {
    int bits = 0;
    std::size_t groups = 0;
    std::size_t group_size = 0;
    TensorView codes;
    TensorView zeros;
    TensorView scales;
    std::optional<TensorView> column_group;
  };

  Parts checked_parts(const ModuleTensors& tensors, std::size_t rows, std::size_t cols) const {
    Parts parts;
    parts.codes = tensors.get("qweight", {DType::kI32, DType::kU32});
    parts.bits = exceptions_ ? bits_of(axis_size(parts.codes, 0), cols) : bits_;
    parts.codes = tensors.get("qweight", {DType::kI32, DType::kU32}, {words_of_codes(cols, parts.bits), rows});
    parts.groups = axis_size(tensors.get("scales", {DType::kF16, DType::kBF16, DType::kF32}), 0);
    parts.scales = tensors.get_floats("scales", {parts.groups, rows});
    parts.group_size = group_size_ == 0 ? cols : std::min(group_size_, cols);
    const bool fits = parts.groups > 0 && round_up_division(cols, parts.group_size) == parts.groups;
    if (!fits && exceptions_ && parts.groups > 0 && cols % parts.groups == 0) {
      parts.group_size = cols / parts.groups;
    } else if (!fits) {
      tensors.fail("scales", "has " + std::to_string(parts.groups) + " groups, where " + std::to_string(cols) +
                                 " columns in groups of " + std::to_string(parts.group_size) + " have " +
                                 std::to_string(round_up_division(cols, parts.group_size)));
    }
    parts.zeros = tensors.get("qzeros", {DType::kI32, DType::kU32}, {parts.groups, words_of_codes(rows, parts.bits)});
    if (tensors.contains("g_idx")) parts.column_group = tensors.get("g_idx", {DType::kI32}, {cols});
    return parts;
  }

  /// Of a module that may have others than most; those of config.json where none gives so many words.
  int bits_of(std::size_t words, std::size_t cols) const {
    for (const int bits : kGptqBits) {
      if (words_of_codes(cols, bits) == words) return bits;
    }
    return bits_;
  }

  /// Empty where groups are what neighbours share.
  static std::vector<std::int32_t> column_groups(const ModuleTensors& tensors, const Parts& parts, std::size_t cols) {
    if (!parts.column_group) return {};
    std::vector<std::int32_t> groups(cols);
    std::memcpy(groups.data(), parts.column_group->bytes.data(), cols * sizeof(std::int32_t));
    bool in_order = true;
    for (std::size_t c = 0; c < cols; ++c) {
      if (groups[c] < 0 || static_cast<std::size_t>(groups[c]) >= parts.groups) {
        tensors.fail("g_idx", "names group " + std::to_string(groups[c]) + " of " + std::to_string(parts.groups));
      }
      in_order = in_order && static_cast<std::size_t>(groups[c]) == c / parts.group_size;
    }
    if (in_order) groups.clear();
    return groups;
  }

  bool zeros_less_one_ = true;
  bool exceptions_ = false;  ///< modules may have other bits and groups
  int bits_ = 4;
  std::size_t group_size_ = 0;  ///< 0: a group for each row
};

}  // namespace

std::unique_ptr<const ForeignFormat> make_gptq_format(const files::JsonReader& quantization) {
  return std::make_unique<const GptqFormat>(quantization);
}

}  // namespace ballast::formats
