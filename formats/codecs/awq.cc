// AWQ as its GEMM kernels have it: 4 bits, eight rows to a word, in an order of their own.
#include <algorithm>
#include <array>
#include <cstring>

#include "ballast/error.h"
#include "formats/codecs/foreign_format.h"
#include "formats/codecs/integer_groups.h"
#include "formats/codecs/module_tensors.h"

namespace ballast::formats {

namespace {

using files::Checkpoint;

constexpr std::size_t kAwqRowsOfWord = 8;

/// The place in a word of each of its eight rows: nibble i holds row 0, 2, 4, 6, 1, 3, 5, 7.
constexpr std::array<unsigned, kAwqRowsOfWord> kAwqNibbles = {0, 4, 1, 5, 2, 6, 3, 7};

std::uint8_t awq_code(const std::byte* words, std::size_t row) {
  std::uint32_t word = 0;
  std::memcpy(&word, words + row / kAwqRowsOfWord * sizeof(word), sizeof(word));
  return static_cast<std::uint8_t>(word >> (4 * kAwqNibbles[row % kAwqRowsOfWord]) & 15U);
}

/// AutoAWQ divides what an activation returns by a tensor of its own where no matrix before it can take that over
/// (StarCoder2, Falcon): the forward pass here has no such step.
void refuse_scaled_activation(const Checkpoint& checkpoint, const std::string& module) {
  const std::string scales = module.substr(0, module.rfind('.') + 1) + "act.scales";
  if (!checkpoint.contains(scales)) return;
  throw Error(checkpoint.path().string() + ": " + scales, "scales an activation, which ballast does not do");
}

class AwqFormat : public ForeignFormat {
 public:
  explicit AwqFormat(const files::JsonReader& quantization) {
    std::string version = quantization.text("version", "gemm");
    std::ranges::transform(version, version.begin(), [](unsigned char c) { return std::tolower(c); });
    if (version != "gemm") quantization.fail("version", "'" + version + "' is not read: gemm is");
    const std::string_view bits_field = quantization.has("bits") ? "bits" : "w_bit";
    if (quantization.at(bits_field).integer<int>() != 4) quantization.fail(bits_field, "must be 4");
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

  ForeignTensors checked_tensors(const Checkpoint& checkpoint, const std::string& module, std::size_t rows,
                                 std::size_t cols) const override {
    refuse_scaled_activation(checkpoint, module);
    const ModuleTensors tensors(checkpoint, module);
    const Parts parts = checked_parts(tensors, rows, cols);
    return {.names = {tensors.name("qweight"), tensors.name("qzeros"), tensors.name("scales")},
            .type = integer_type_name("AWQ", 4, parts.group_size, cols)};
  }

  ForeignMatrix matrix(const Checkpoint& checkpoint, const std::string& module, std::size_t rows,
                       std::size_t cols) const override {
    refuse_scaled_activation(checkpoint, module);
    const ModuleTensors tensors(checkpoint, module);
    const Parts parts = checked_parts(tensors, rows, cols);
    const std::vector<float> scales = tensors.floats("scales", parts.scales);  // [groups][rows]
    const std::size_t row_bytes = rows / kAwqRowsOfWord * sizeof(std::uint32_t);
    IntegerGroups groups;
    groups.rows = rows;
    groups.cols = cols;
    groups.bits = 4;
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
    return foreign_matrix(std::move(groups));
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

  std::size_t group_size_ = 0;  ///< 0: a group for each row
};

}  // namespace

std::unique_ptr<const ForeignFormat> make_awq_format(const files::JsonReader& quantization) {
  return std::make_unique<const AwqFormat>(quantization);
}

}  // namespace ballast::formats
