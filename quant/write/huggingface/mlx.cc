// MLX, mode "affine": a dense string of bits for each row, a scale and an offset for each group, and for each module
// bits and groups of its own.
#include <nlohmann/json.hpp>

#include "ballast/error.h"
#include "ballast/quantized.h"
#include "formats/scale_codes.h"
#include "kernels/matrix/float_matrix.h"
#include "quant/write/float_type.h"
#include "quant/write/huggingface/layout_parts.h"
#include "quant/write/huggingface/matrix_layout.h"

namespace ballast::quant {

namespace {

using files::TensorPlan;
using nlohmann::json;

constexpr std::size_t kUsualGroupSize = 64;

json form_of(const WeightFormat& format) {
  return {{"bits", format.bits}, {"group_size", format.group_size}, {"mode", "affine"}};
}

class MlxLayout : public MatrixLayout {
 public:
  std::string name() const override { return "MLX"; }

  std::vector<WeightFormat> candidates() const override { return affine_formats(); }

  WeightFormat fitting(const WeightFormat& format, bool int8_activations) const override {
    if (int8_activations) throw Error(name(), "keeps activations in 16 bits: choose w4a16 or w8a16");
    return named(format, int8_activations);
  }

  WeightFormat named(const WeightFormat& format, bool /*int8_activations*/) const override {
    if (format.kind != WeightFormat::Kind::kInteger) return format;
    return affine_format(format.bits, format.group_size == 0 ? kUsualGroupSize : format.group_size);
  }

  bool ties_formats() const override { return false; }
  bool quantizes_head() const override { return true; }
  bool quantizes_embedding() const override { return true; }

  bool holds(const ModulePlan& module) const override {
    const WeightFormat& format = module.format;
    return format.kind == WeightFormat::Kind::kAffine && format.scale_bits == 16 &&
           module.cols % format.group_size == 0;
  }

  std::vector<TensorPlan> tensors(const ModulePlan& module, DType scale_type) const override {
    const std::size_t words = packed_row_bytes(module.cols, module.format.bits) / kWordBytes;
    const Shape groups = {axis(module.rows), axis(groups_of(module))};
    return {{module.name + ".weight", DType::kU32, {axis(module.rows), axis(words)}},
            {module.name + ".scales", scale_type, groups},
            {module.name + ".biases", scale_type, groups}};
  }

  std::vector<std::string> configuration_keys() const override { return {"quantization", "quantization_config"}; }

  json configuration(std::span<const ModulePlan> model, bool /*int8_activations*/) const override {
    const WeightFormat usual = most_common_format(model).value_or(affine_format(4, kUsualGroupSize));
    json forms = form_of(usual);
    for (const ModulePlan* module : quantized_modules(model)) {
      if (module->format != usual) forms[module->name] = form_of(module->format);
    }
    return forms;
  }

 private:
  std::vector<std::vector<std::byte>> contents(const ModulePlan& /*module*/, const RoundedMatrix& matrix,
                                               DType scale_type) const override {
    const auto& tensor = std::get<formats::AffineTensor>(matrix);
    const auto floats = [&](const std::vector<std::uint16_t>& halves) {
      std::vector<float> values(halves.size());
      kernels::to_float(halves.data(), formats::scale_float_type(tensor.half_type), halves.size(), values.data());
      return encode_floats(values, scale_type);
    };
    return {raw_bytes(tensor.codes), floats(tensor.scales), floats(tensor.offsets)};
  }
};

}  // namespace

std::unique_ptr<MatrixLayout> make_mlx_layout() {
  return std::make_unique<MlxLayout>();
}

}  // namespace ballast::quant
