// GPTQ: codes packed along the columns of [cols, rows], zero points along the rows, and a group number for each column.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "formats/codecs/code_words.h"
#include "formats/codecs/codec.h"
#include "formats/codecs/codec_parts.h"
#include "formats/codecs/module_tensors.h"
#include "formats/float_type.h"
#include "formats/integer_groups.h"

namespace ballast::formats {

namespace {

using files::Checkpoint;
using files::TensorPlan;
using nlohmann::json;

constexpr std::array kGptqBits = {2, 3, 4, 8};
constexpr std::size_t kUsualGptqGroupSize = 128;

/// Adds one to a zero point: version 1 of the format stores it less one, and 0 wraps around.
unsigned with_one_more(unsigned stored, int bits) {
  return (stored + 1) & ((1U << static_cast<unsigned>(bits)) - 1);
}
unsigned with_one_less(unsigned zero, int bits) {
  return (zero - 1) & ((1U << static_cast<unsigned>(bits)) - 1);
}

class GptqReader : public CodecReader {
 public:
  explicit GptqReader(const files::JsonReader& quantization) {
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

  std::vector<std::string> checked_tensors(const Checkpoint& checkpoint, const std::string& module, std::size_t rows,
                                           std::size_t cols) const override {
    const ModuleTensors tensors(checkpoint, module);
    const Parts parts = checked_parts(tensors, rows, cols);
    std::vector<std::string> names = {tensors.name("qweight"), tensors.name("qzeros"), tensors.name("scales")};
    if (parts.column_group) names.push_back(tensors.name("g_idx"));
    return names;
  }

  StoredCodes codes(const Checkpoint& checkpoint, const std::string& module, std::size_t rows,
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
    for (std::size_t group = 0; group < parts.groups; ++group) {
      const std::byte* words = parts.zeros.bytes.data() + group * zero_words * sizeof(std::uint32_t);
      for (std::size_t row = 0; row < rows; ++row) {
        const unsigned stored = code_at(words, 1, row, parts.bits);
        const unsigned zero = zeros_less_one_ ? with_one_more(stored, parts.bits) : stored;
        groups.zeros[row * parts.groups + group] = static_cast<std::uint8_t>(zero);
        groups.scales[row * parts.groups + group] = scales[group * rows + row];
      }
    }
    groups.read_codes = [bytes = parts.codes.bytes, rows, cols, bits = parts.bits](std::size_t row, std::uint8_t* dst) {
      const std::byte* words = bytes.data() + row * sizeof(std::uint32_t);
      for (std::size_t c = 0; c < cols; ++c) dst[c] = static_cast<std::uint8_t>(code_at(words, rows, c, bits));
    };
    return stored_codes("GPTQ", std::move(groups));
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

  /// Returns the bits of a module's codes, which may differ from those of most modules; those of config.json if no
  /// number of bits gives this number of words.
  int bits_of(std::size_t words, std::size_t cols) const {
    for (const int bits : kGptqBits) {
      if (words_of_codes(cols, bits) == words) return bits;
    }
    return bits_;
  }

  /// Returns the group of each column; empty if neighbouring columns form the groups.
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
  bool exceptions_ = false;  ///< some modules may have other bits and groups
  int bits_ = 4;
  std::size_t group_size_ = 0;  ///< 0: each row is one group
};

/// Writes version 1.
class GptqWriter : public CodecWriter {
 public:
  std::string name() const override { return "GPTQ"; }

  std::vector<WeightFormat> candidates() const override { return symmetric_formats(); }

  WeightFormat fitting(const WeightFormat& format, ActivationType activations) const override {
    refuse_int8_activations(activations, name());
    return {.bits = format.bits, .group_size = format.group_size == 0 ? kUsualGptqGroupSize : format.group_size};
  }

  bool quantizes_head() const override { return true; }

  bool holds(const PlannedMatrix& matrix) const override {
    const WeightFormat& format = matrix.format;
    const bool integers = format.is_integer() && (format.bits == 4 || format.bits == 8);
    constexpr std::size_t kRowsOfWord = 8;  // at 4 bits
    return integers && format.symmetric && format.scale_bits == 16 && format.group_size != 0 &&
           matrix.cols % format.group_size == 0 && matrix.rows % kRowsOfWord == 0;
  }

  std::vector<TensorPlan> tensors(const PlannedMatrix& matrix, DType scale_type) const override {
    const int bits = matrix.format.bits;
    const auto rows = axis(matrix.rows);
    const auto groups = axis(groups_of(matrix));
    return {{matrix.name + ".qweight", DType::kI32, {axis(words_of_codes(matrix.cols, bits)), rows}},
            {matrix.name + ".qzeros", DType::kI32, {groups, axis(words_of_codes(matrix.rows, bits))}},
            {matrix.name + ".scales", scale_type, {groups, rows}},
            {matrix.name + ".g_idx", DType::kI32, {axis(matrix.cols)}}};
  }

  json configuration(const PlannedModel& model, ActivationType /*activations*/) const override {
    const WeightFormat usual = most_common_format(model).value_or(symmetric_formats().front());
    json exceptions = json::object();
    bool head = false;
    for (const PlannedMatrix& matrix : model.quantized) {
      head = head || matrix.is_head;
      if (matrix.format == usual) continue;
      exceptions["+:" + fused_pattern(matrix.name)] = {{"bits", matrix.format.bits},
                                                       {"group_size", matrix.format.group_size}};
    }
    for (const std::string& name : model.plain_linears) {
      if (name != "lm_head") exceptions["-:" + fused_pattern(name)] = json::object();
    }
    json config = {{"quant_method", "gptq"},
                   {"bits", usual.bits},
                   {"group_size", usual.group_size},
                   {"sym", true},
                   {"desc_act", false},
                   {"checkpoint_format", "gptq"},
                   {"lm_head", head}};
    if (!exceptions.empty()) config["dynamic"] = exceptions;
    return config;
  }

 private:
  /// Returns an expression that matches the module, and the one into which servers fuse it and its neighbours, which
  /// have the same format.
  static std::string fused_pattern(const std::string& name) {
    const std::size_t dot = name.rfind('.');
    std::string last = name.substr(dot + 1);
    for (const char* fused : {"qkv_proj|q_proj|k_proj|v_proj", "gate_up_proj|gate_proj|up_proj"}) {
      if (("|" + std::string(fused) + "|").find("|" + last + "|") != std::string::npos) last = fused;
    }
    std::string pattern = "^";
    for (const char c : name.substr(0, dot + 1)) pattern += c == '.' ? "\\." : std::string(1, c);
    return pattern + "(" + last + ")$";
  }

  std::vector<std::vector<std::byte>> contents(const PlannedMatrix& matrix, const CodeMatrix& codes,
                                               DType scale_type) const override {
    const QuantizedView view = codes.view();
    const int bits = view.bits;
    const std::size_t groups = view.groups();
    const std::size_t zero_words_of_group = words_of_codes(matrix.rows, bits);
    std::vector<std::uint32_t> code_words(words_of_codes(matrix.cols, bits) * matrix.rows);
    std::vector<std::uint32_t> zero_words(groups * zero_words_of_group);
    std::vector<float> scales(groups * matrix.rows);
    std::vector<std::uint8_t> row_codes(matrix.cols);
    for (std::size_t row = 0; row < matrix.rows; ++row) {
      unpack_row(view, row, row_codes);
      for (std::size_t c = 0; c < matrix.cols; ++c) {
        put_code(row_codes[c], code_words.data() + row, matrix.rows, c, bits);
      }
      const std::vector<std::uint8_t> row_zeros = group_zeros(view, row);
      const std::vector<float> row_scales = group_scales(view, row);
      for (std::size_t group = 0; group < groups; ++group) {
        put_code(with_one_less(row_zeros[group], bits), zero_words.data() + group * zero_words_of_group, 1, row, bits);
        scales[group * matrix.rows + row] = row_scales[group];
      }
    }
    std::vector<std::int32_t> column_group(matrix.cols);
    for (std::size_t c = 0; c < matrix.cols; ++c) column_group[c] = static_cast<std::int32_t>(c / view.group_size);
    return {raw_bytes(code_words), raw_bytes(zero_words), encode_floats(scales, scale_type), raw_bytes(column_group)};
  }
};

const GptqWriter kGptqWriter{};

}  // namespace

const Codec kGptqCodec = {
    .detect = [](const files::JsonReader& quantization) { return quantization.text("quant_method", "") == "gptq"; },
    .make_reader = [](const files::JsonReader& quantization) -> std::unique_ptr<const CodecReader> {
      return std::make_unique<const GptqReader>(quantization);
    },
    .writer = &kGptqWriter};

}  // namespace ballast::formats
