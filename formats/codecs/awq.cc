// AWQ in the layout of its GEMM kernels: 4 bits, eight rows to a word, in a special order.
#include <algorithm>
#include <array>
#include <utility>

#include "ballast/error.h"
#include "formats/codecs/code_words.h"
#include "formats/codecs/codec.h"
#include "formats/codecs/codec_parts.h"
#include "formats/codecs/module_tensors.h"
#include "formats/float_type.h"
#include "formats/integer_groups.h"
#include "kernels/matrix/bit_packing.h"

namespace ballast::formats {

namespace {

using files::Checkpoint;
using files::TensorPlan;
using nlohmann::json;

constexpr int kAwqBits = 4;
constexpr std::size_t kAwqRowsOfWord = 8;
constexpr std::size_t kUsualAwqGroupSize = 128;

/// Returns the position of a row's code in the words of all rows: nibbles 0 to 7 of a word contain rows 0, 2, 4, 6, 1,
/// 3, 5, 7 of eight.
std::size_t awq_position(std::size_t row) {
  constexpr std::array<std::size_t, kAwqRowsOfWord> kNibbles = {0, 4, 1, 5, 2, 6, 3, 7};
  return row / kAwqRowsOfWord * kAwqRowsOfWord + kNibbles[row % kAwqRowsOfWord];
}

std::uint8_t awq_code(const std::byte* words, std::size_t row) {
  return static_cast<std::uint8_t>(code_at(words, 1, awq_position(row), kAwqBits));
}

void put_awq_code(std::uint8_t code, std::uint32_t* words, std::size_t row) {
  put_code(code, words, 1, awq_position(row), kAwqBits);
}

/// Refuses scaled activations: where no previous matrix can take over the scales (StarCoder2, Falcon), AutoAWQ divides
/// the output of an activation by a tensor, and the forward pass here has no such step.
void refuse_scaled_activation(const Checkpoint& checkpoint, const std::string& module) {
  const std::string scales = module.substr(0, module.rfind('.') + 1) + "act.scales";
  if (!checkpoint.contains(scales)) return;
  throw Error(checkpoint.path().string() + ": " + scales, "scales an activation, which ballast does not do");
}

class AwqReader : public CodecReader {
 public:
  explicit AwqReader(const files::JsonReader& quantization) {
    std::string version = quantization.text("version", "gemm");
    std::ranges::transform(version, version.begin(), [](unsigned char c) { return std::tolower(c); });
    if (version != "gemm") quantization.fail("version", "'" + version + "' is not read: gemm is");
    const std::string_view bits_field = quantization.has("bits") ? "bits" : "w_bit";
    if (quantization.at(bits_field).integer<int>() != kAwqBits) quantization.fail(bits_field, "must be 4");
    const std::string_view group_field = quantization.has("group_size") ? "group_size" : "q_group_size";
    const auto group_size = quantization.at(group_field).integer<std::int64_t>(-1, 1 << 30);
    group_size_ = group_size > 0 ? static_cast<std::size_t>(group_size) : 0;
    if (!quantization.flag("zero_point", true)) quantization.fail("zero_point", "must be true");
  }

  bool has(const Checkpoint& checkpoint, const std::string& module) const override {
    return checkpoint.contains(module + ".qweight");
  }

  std::size_t stored_rows(const Checkpoint& checkpoint, const std::string& module) const override {
    const std::size_t words = axis_size(checkpoint.tensor(module + ".qweight"), 1);
    return words * kAwqRowsOfWord;
  }

  std::vector<std::string> checked_tensors(const Checkpoint& checkpoint, const std::string& module, std::size_t rows,
                                           std::size_t cols) const override {
    refuse_scaled_activation(checkpoint, module);
    const ModuleTensors tensors(checkpoint, module);
    checked_parts(tensors, rows, cols);
    return {tensors.name("qweight"), tensors.name("qzeros"), tensors.name("scales")};
  }

  StoredCodes codes(const Checkpoint& checkpoint, const std::string& module, std::size_t rows,
                    std::size_t cols) const override {
    refuse_scaled_activation(checkpoint, module);
    const ModuleTensors tensors(checkpoint, module);
    const Parts parts = checked_parts(tensors, rows, cols);
    const std::vector<float> scales = tensors.floats("scales", parts.scales);  // [groups][rows]
    const std::size_t row_bytes = rows / kAwqRowsOfWord * sizeof(std::uint32_t);
    IntegerGroups groups;
    groups.rows = rows;
    groups.cols = cols;
    groups.bits = kAwqBits;
    groups.group_size = parts.group_size;
    const std::size_t count = groups.groups();
    groups.scales.resize(rows * count);
    groups.zeros.resize(rows * count);
    for (std::size_t group = 0; group < count; ++group) {
      for (std::size_t row = 0; row < rows; ++row) {
        groups.zeros[row * count + group] = awq_code(parts.zeros.bytes.data() + group * row_bytes, row);
        groups.scales[row * count + group] = scales[group * rows + row];
      }
    }
    groups.read_codes = [bytes = parts.codes.bytes, row_bytes, cols](std::size_t row, std::uint8_t* dst) {
      for (std::size_t c = 0; c < cols; ++c) dst[c] = awq_code(bytes.data() + c * row_bytes, row);
    };
    return stored_codes("AWQ", std::move(groups));
  }

 private:
  struct Parts {
    std::size_t group_size = 0;
    TensorView codes;
    TensorView zeros;
    TensorView scales;
  };

  Parts checked_parts(const ModuleTensors& tensors, std::size_t rows, std::size_t cols) const {
    if (rows % kAwqRowsOfWord != 0) {
      tensors.fail("qweight", "is of " + std::to_string(rows) + " rows, which eight to a word does not give");
    }
    Parts parts;
    parts.group_size = group_size_ == 0 ? cols : std::min(group_size_, cols);
    const std::size_t groups = round_up_division(cols, parts.group_size);
    parts.codes = tensors.get("qweight", {DType::kI32, DType::kU32}, {cols, rows / kAwqRowsOfWord});
    parts.zeros = tensors.get("qzeros", {DType::kI32, DType::kU32}, {groups, rows / kAwqRowsOfWord});
    parts.scales = tensors.get_floats("scales", {groups, rows});
    return parts;
  }

  std::size_t group_size_ = 0;  ///< 0: each row is one group
};

class AwqWriter : public CodecWriter {
 public:
  std::string name() const override { return "AWQ"; }
  std::vector<WeightFormat> candidates() const override { return {}; }

  WeightFormat fitting(const WeightFormat& format, ActivationType activations) const override {
    refuse_int8_activations(activations, name());
    if (format.bits != kAwqBits) throw Error(name(), "supports only 4-bit weights: choose w4a16");
    return {.bits = kAwqBits,
            .group_size = format.group_size == 0 ? kUsualAwqGroupSize : format.group_size,
            .symmetric = false};
  }

  bool quantizes_head() const override { return false; }

  bool holds(const PlannedMatrix& matrix) const override {
    const WeightFormat& format = matrix.format;
    const bool integers = format.is_integer() && format.bits == kAwqBits && !format.symmetric;
    return integers && format.scale_bits == 16 && format.group_size != 0 && matrix.cols % format.group_size == 0 &&
           matrix.rows % kAwqRowsOfWord == 0;
  }

  void check_together(const PlannedModel& model) const override {
    const std::size_t size = group_size(model);
    for (const PlannedMatrix& matrix : model.quantized) {
      if (matrix.format.group_size != size) throw Error(matrix.name, "AWQ has the same group size for all matrices");
    }
  }

  std::vector<TensorPlan> tensors(const PlannedMatrix& matrix, DType scale_type) const override {
    const auto words = axis(matrix.rows / kAwqRowsOfWord);
    const auto groups = axis(groups_of(matrix));
    return {{matrix.name + ".qweight", DType::kI32, {axis(matrix.cols), words}},
            {matrix.name + ".qzeros", DType::kI32, {groups, words}},
            {matrix.name + ".scales", scale_type, {groups, axis(matrix.rows)}}};
  }

  json configuration(const PlannedModel& model, ActivationType /*activations*/) const override {
    return {{"quant_method", "awq"}, {"bits", kAwqBits},  {"group_size", group_size(model)},
            {"zero_point", true},    {"version", "gemm"}, {"modules_to_not_convert", model.plain_linears}};
  }

 private:
  /// Returns the group size that all matrices have.
  static std::size_t group_size(const PlannedModel& model) {
    return model.quantized.empty() ? kUsualAwqGroupSize : model.quantized.front().format.group_size;
  }

  std::vector<std::vector<std::byte>> contents(const PlannedMatrix& matrix, const CodeMatrix& codes,
                                               DType scale_type) const override {
    const QuantizedView view = codes.view();
    const std::size_t words = matrix.rows / kAwqRowsOfWord;
    const std::size_t groups = view.groups();
    std::vector<std::uint32_t> code_words(matrix.cols * words);
    std::vector<std::uint32_t> zero_words(groups * words);
    std::vector<float> scales(groups * matrix.rows);
    std::vector<std::uint8_t> row_codes(matrix.cols);
    for (std::size_t row = 0; row < matrix.rows; ++row) {
      unpack_row(view, row, row_codes);
      for (std::size_t c = 0; c < matrix.cols; ++c) put_awq_code(row_codes[c], code_words.data() + c * words, row);
      const std::vector<std::uint8_t> row_zeros = group_zeros(view, row);
      const std::vector<float> row_scales = group_scales(view, row);
      for (std::size_t group = 0; group < groups; ++group) {
        put_awq_code(row_zeros[group], zero_words.data() + group * words, row);
        scales[group * matrix.rows + row] = row_scales[group];
      }
    }
    return {raw_bytes(code_words), raw_bytes(zero_words), encode_floats(scales, scale_type)};
  }
};

const AwqWriter kAwqWriter{};

}  // namespace

const Codec kAwqCodec = {
    .detect = [](const files::JsonReader& quantization) { return quantization.text("quant_method", "") == "awq"; },
    .make_reader = [](const files::JsonReader& quantization) -> std::unique_ptr<const CodecReader> {
      return std::make_unique<const AwqReader>(quantization);
    },
    .writer = &kAwqWriter};

}  // namespace ballast::formats
