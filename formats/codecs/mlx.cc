// MLX, mode "affine": a bit string for each row, a scale and an offset for each group. Each module can have its own
// bits and group size.
#include <set>

#include "formats/codecs/code_words.h"
#include "formats/codecs/codec.h"
#include "formats/codecs/codec_parts.h"
#include "formats/codecs/module_tensors.h"
#include "formats/float_type.h"
#include "formats/integer_groups.h"
#include "formats/scale_codes.h"
#include "kernels/matrix/float_matrix.h"

namespace ballast::formats {

namespace {

using files::Checkpoint;
using files::TensorPlan;
using nlohmann::json;

constexpr std::size_t kUsualMlxGroupSize = 64;

class MlxReader : public CodecReader {
 public:
  explicit MlxReader(const files::JsonReader& quantization) {
    add_form(quantization);
    for (const auto& [name, value] : quantization.members()) {  // modules with another form; false: not quantized
      if (value.json().is_object()) add_form(value);
    }
  }

  bool has(const Checkpoint& checkpoint, const std::string& module) const override {
    return checkpoint.contains(module + ".scales") && checkpoint.contains(module + ".weight");
  }

  std::size_t stored_rows(const Checkpoint& checkpoint, const std::string& module) const override {
    return axis_size(checkpoint.tensor(module + ".weight"), 0);
  }

  std::vector<std::string> checked_tensors(const Checkpoint& checkpoint, const std::string& module, std::size_t rows,
                                           std::size_t cols) const override {
    const ModuleTensors tensors(checkpoint, module);
    checked_parts(tensors, rows, cols);
    return {tensors.name("weight"), tensors.name("scales"), tensors.name("biases")};
  }

  StoredCodes codes(const Checkpoint& checkpoint, const std::string& module, std::size_t rows,
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
    return stored_codes("MLX", std::move(groups));
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

  /// The form of a module follows from the shapes: the names of modules in config.json depend on MLX's classes.
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

  std::set<Form> forms_;  ///< of all modules
};

json mlx_form(const WeightFormat& format) {
  return {{"bits", format.bits}, {"group_size", format.group_size}, {"mode", "affine"}};
}

class MlxWriter : public CodecWriter {
 public:
  std::string name() const override { return "MLX"; }

  std::vector<WeightFormat> candidates() const override { return affine_formats(); }

  WeightFormat fitting(const WeightFormat& format, ActivationType activations) const override {
    refuse_int8_activations(activations, name());
    return named(format, activations);
  }

  WeightFormat named(const WeightFormat& format, ActivationType /*activations*/) const override {
    if (!format.is_format_of_bits()) return format;
    return affine_format(format.bits, format.group_size == 0 ? kUsualMlxGroupSize : format.group_size);
  }

  bool ties_formats() const override { return false; }
  bool quantizes_head() const override { return true; }
  bool quantizes_embedding() const override { return true; }

  bool holds(const PlannedMatrix& matrix) const override {
    const WeightFormat& format = matrix.format;
    return format.kind == WeightFormat::Kind::kAffine && format.scale_bits == 16 &&
           matrix.cols % format.group_size == 0;
  }

  std::vector<TensorPlan> tensors(const PlannedMatrix& matrix, DType scale_type) const override {
    const Shape groups = {axis(matrix.rows), axis(groups_of(matrix))};
    const auto words = axis(words_of_codes(matrix.cols, matrix.format.bits));
    return {{matrix.name + ".weight", DType::kU32, {axis(matrix.rows), words}},
            {matrix.name + ".scales", scale_type, groups},
            {matrix.name + ".biases", scale_type, groups}};
  }

  std::vector<std::string> configuration_keys() const override { return {"quantization", "quantization_config"}; }

  json configuration(const PlannedModel& model, ActivationType /*activations*/) const override {
    const WeightFormat usual = most_common_format(model).value_or(affine_format(4, kUsualMlxGroupSize));
    json forms = mlx_form(usual);
    for (const PlannedMatrix& matrix : model.quantized) {
      if (matrix.format != usual) forms[matrix.name] = mlx_form(matrix.format);
    }
    return forms;
  }

 private:
  /// Codes of whole groups of 32 columns fill words without gaps, as they fill ballast's bytes.
  std::vector<std::vector<std::byte>> contents(const PlannedMatrix& /*matrix*/, const CodeMatrix& codes,
                                               DType scale_type) const override {
    const auto floats = [&](const std::vector<std::uint16_t>& halves) {
      std::vector<float> values(halves.size());
      kernels::to_float(halves.data(), scale_float_type(codes.scale_type), halves.size(), values.data());
      return encode_floats(values, scale_type);
    };
    return {raw_bytes(codes.codes), floats(codes.scales), floats(codes.offsets)};
  }
};

const MlxWriter kMlxWriter{};

}  // namespace

/// MLX names no method: its object contains only numbers.
const Codec kMlxCodec = {
    .detect =
        [](const files::JsonReader& quantization) {
          return !quantization.has("quant_method") && quantization.has("bits") && quantization.has("group_size");
        },
    .make_reader = [](const files::JsonReader& quantization) -> std::unique_ptr<const CodecReader> {
      return std::make_unique<const MlxReader>(quantization);
    },
    .writer = &kMlxWriter};

}  // namespace ballast::formats
