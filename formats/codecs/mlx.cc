// MLX, mode "affine": a dense string of codes for each row, a scale and an offset for each group.
#include <algorithm>
#include <set>

#include "formats/codecs/foreign_format.h"
#include "formats/codecs/integer_groups.h"
#include "formats/codecs/module_tensors.h"

namespace ballast::formats {

namespace {

using files::Checkpoint;

class MlxFormat : public ForeignFormat {
 public:
  explicit MlxFormat(const files::JsonReader& quantization) {
    add_form(quantization);
    for (const auto& [name, value] : quantization.members()) {  // modules of another form; false: plain ones
      if (value.json().is_object()) add_form(value);
    }
  }

  bool has(const Checkpoint& checkpoint, const std::string& module) const override {
    return checkpoint.contains(module + ".scales") && checkpoint.contains(module + ".weight");
  }

  std::size_t stored_rows(const Checkpoint& checkpoint, const std::string& module) const override {
    return axis_size(checkpoint.tensor(module + ".weight"), 0);
  }

  ForeignTensors checked_tensors(const Checkpoint& checkpoint, const std::string& module, std::size_t rows,
                                 std::size_t cols) const override {
    const ModuleTensors tensors(checkpoint, module);
    const Parts parts = checked_parts(tensors, rows, cols);
    return {.names = {tensors.name("weight"), tensors.name("scales"), tensors.name("biases")},
            .type = integer_type_name("MLX", parts.form.bits, parts.form.group_size, cols)};
  }

  ForeignMatrix matrix(const Checkpoint& checkpoint, const std::string& module, std::size_t rows,
                       std::size_t cols) const override {
    const ModuleTensors tensors(checkpoint, module);
    const Parts parts = checked_parts(tensors, rows, cols);
    IntegerGroups groups;
    groups.rows = rows;
    groups.cols = cols;
    groups.bits = parts.form.bits;
    groups.group_size = parts.form.group_size;
    groups.scales = tensors.floats("scales", parts.scales);
    groups.offsets = tensors.floats("biases", parts.biases);
    const std::size_t row_bytes = words_of_codes(cols, parts.form.bits) * sizeof(std::uint32_t);
    groups.read_codes = [bytes = parts.codes.bytes, row_bytes, cols, bits = parts.form.bits](std::size_t row,
                                                                                             std::uint8_t* dst) {
      const std::byte* words = bytes.data() + row * row_bytes;
      for (std::size_t c = 0; c < cols; ++c) dst[c] = static_cast<std::uint8_t>(code_at(words, 1, c, bits));
    };
    return foreign_matrix(std::move(groups));
  }

 private:
  struct Form {
    int bits = 0;
    std::size_t group_size = 0;
    auto operator<=>(const Form&) const = default;
  };
  struct Parts {
    Form form;
    TensorView codes;
    TensorView scales;
    TensorView biases;
  };

  void add_form(const files::JsonReader& quantization) {
    const std::string mode = quantization.text("mode", "affine");
    if (mode != "affine") quantization.fail("mode", "'" + mode + "' is not read: affine is");
    const int bits = quantization.at("bits").integer<int>(2, 8);
    if (bits == 7) quantization.fail("bits", "MLX has 2, 3, 4, 5, 6 and 8");
    forms_.insert({bits, quantization.size("group_size")});
  }

  /// The form of a module follows from its shapes: which names config.json gives to modules depends on MLX's classes.
  Parts checked_parts(const ModuleTensors& tensors, std::size_t rows, std::size_t cols) const {
    Parts parts;
    const std::size_t words = axis_size(tensors.get("weight", {DType::kU32}), 1);
    const std::size_t groups = axis_size(tensors.get("scales", {DType::kF16, DType::kBF16, DType::kF32}), 1);
    parts.form = *forms_.begin();
    for (const Form& form : forms_) {
      if (words_of_codes(cols, form.bits) == words && form.group_size * groups == cols) parts.form = form;
    }
    if (cols % parts.form.group_size != 0) {
      tensors.fail("scales", "is for groups of " + std::to_string(parts.form.group_size) + ", which do not divide " +
                                 std::to_string(cols) + " columns");
    }
    const std::size_t expected_groups = cols / parts.form.group_size;
    parts.codes = tensors.get("weight", {DType::kU32}, {rows, words_of_codes(cols, parts.form.bits)});
    parts.scales = tensors.get_floats("scales", {rows, expected_groups});
    parts.biases = tensors.get_floats("biases", {rows, expected_groups});
    return parts;
  }

  std::set<Form> forms_;  ///< that modules have
};

}  // namespace

std::unique_ptr<const ForeignFormat> make_mlx_format(const files::JsonReader& quantization) {
  return std::make_unique<const MlxFormat>(quantization);
}

}  // namespace ballast::formats
