#include "model/source/linear_folds.h"

#include <cassert>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <string_view>
#include <utility>

#include "ballast/error.h"
#include "ballast/tensor.h"
#include "files/safetensors/safetensors_bytes.h"
#include "files/safetensors/safetensors_file.h"
#include "formats/decode_floats.h"
#include "model/source/hadamard.h"

namespace ballast::model {

namespace {

constexpr std::string_view kConstantInput = ".constant_input";
constexpr std::string_view kInputs = ".inputs.";
constexpr std::string_view kOutputs = ".outputs.";
constexpr std::string_view kScaling = ".scaling";
constexpr std::string_view kRotation = ".rotation";
constexpr std::string_view kCentering = ".centering";

std::optional<Hadamard> matrix_of(const AxisFolds::Rotation& rotation) {
  return rotation.random_signs ? Hadamard::with_random_signs(rotation.order, Hadamard::kModelSeed)
                               : Hadamard::of_order(rotation.order);
}

void apply_step(const AxisFolds::Scaling& scaling, std::span<double> values) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= double{scaling.factors[i]};
}

void apply_step(const AxisFolds::Rotation& rotation, std::span<double> values) {
  const Hadamard matrix = *matrix_of(rotation);
  std::vector<double> scratch;
  for (std::size_t first = 0; first < values.size(); first += rotation.order) {
    matrix.apply(values.data() + first, scratch);
  }
}

void apply_step(const AxisFolds::Centering&, std::span<double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  for (double& value : values) value -= sum / static_cast<double>(values.size());
}

/// Collects the tensors of the file.
class FoldTensors {
 public:
  void add(const std::string& name, std::span<const float> values) {
    views_[name] = {
        .dtype = DType::kF32, .shape = {static_cast<std::int64_t>(values.size())}, .bytes = std::as_bytes(values)};
  }
  void add(const std::string& name, std::vector<std::int32_t> values) {
    const std::vector<std::int32_t>& kept = integers_.emplace_back(std::move(values));
    views_[name] = {.dtype = DType::kI32,
                    .shape = {static_cast<std::int64_t>(kept.size())},
                    .bytes = std::as_bytes(std::span(kept))};
  }
  void add(const std::string& axis, const AxisFolds& folds) {
    for (std::size_t i = 0; i < folds.steps().size(); ++i) {
      std::visit([&](const auto& step) { add_step(axis + std::to_string(i), step); }, folds.steps()[i]);
    }
  }
  std::string bytes() const { return files::safetensors_bytes(views_, {}); }

 private:
  void add_step(const std::string& name, const AxisFolds::Scaling& step) {
    add(name + std::string(kScaling), step.factors);
  }
  void add_step(const std::string& name, const AxisFolds::Rotation& step) {
    add(name + std::string(kRotation), std::vector{static_cast<std::int32_t>(step.order), step.random_signs ? 1 : 0});
  }
  void add_step(const std::string& name, const AxisFolds::Centering&) {
    add(name + std::string(kCentering), std::vector<std::int32_t>{});
  }

  std::map<std::string, TensorView> views_;
  std::deque<std::vector<std::int32_t>> integers_;  ///< whose elements stay where they are
};

std::vector<float> read_floats(const TensorView& view, const std::string& context) {
  std::vector<float> values(static_cast<std::size_t>(element_count(view.shape)));
  formats::decode_floats(view, context, values.data());
  return values;
}

AxisFolds::Rotation read_rotation(const TensorView& view, const std::string& context) {
  if (view.dtype != DType::kI32 || element_count(view.shape) != 2) throw Error(context, "is not two integers");
  std::int32_t values[2];
  std::memcpy(values, view.bytes.data(), sizeof values);
  const AxisFolds::Rotation rotation{.order = static_cast<std::size_t>(values[0]), .random_signs = values[1] != 0};
  if (values[0] <= 0 || !matrix_of(rotation)) throw Error(context, "has an order that no Hadamard matrix has here");
  return rotation;
}

/// Reads the step of "<index>.<kind>" of an axis.
void read_step(std::string_view step, const TensorView& view, const std::string& context, AxisFolds& folds) {
  const std::string_view index = step.substr(0, step.find('.'));
  const std::string_view kind = step.substr(index.size());
  if (index != std::to_string(folds.steps().size())) throw Error(context, "is not the axis's next step");
  if (kind == kScaling) {
    folds.add(AxisFolds::Scaling{read_floats(view, context)});
  } else if (kind == kRotation) {
    folds.add(read_rotation(view, context));
  } else if (kind == kCentering) {
    folds.add(AxisFolds::Centering{});
  } else {
    throw Error(context, "is no step that this version knows");
  }
}

/// Applies the changes of an axis to each of `count` vectors of `size` values: those of one are `stride` apart.
void apply_to_all(const AxisFolds& folds, std::size_t count, std::size_t size, std::size_t step, std::size_t stride,
                  std::vector<float>& values) {
  if (folds.steps().empty()) return;
  std::vector<double> vector(size);
  for (std::size_t i = 0; i < count; ++i) {
    float* first = values.data() + i * step;
    for (std::size_t c = 0; c < size; ++c) vector[c] = double{first[c * stride]};
    folds.apply(vector);
    for (std::size_t c = 0; c < size; ++c) first[c * stride] = static_cast<float>(vector[c]);
  }
}

/// Returns scale * up (down input).
std::vector<float> product_with(const LoraProduct& product, std::span<const float> input) {
  std::vector<double> inner(product.rank);
  for (std::size_t k = 0; k < product.rank; ++k) {
    for (std::size_t c = 0; c < product.inputs; ++c) {
      inner[k] += double{product.down[k * product.inputs + c]} * double{input[c]};
    }
  }
  std::vector<float> output(product.outputs);
  for (std::size_t row = 0; row < product.outputs; ++row) {
    double sum = 0;
    for (std::size_t k = 0; k < product.rank; ++k) sum += double{product.up[row * product.rank + k]} * inner[k];
    output[row] = static_cast<float>(double{product.scale} * sum);
  }
  return output;
}

[[noreturn]] void refuse_sizes(const std::string& context) {
  throw Error(context, std::string("does not fit the model's folds (") + kFoldsFile + ")");
}

std::map<std::string, LinearFolds> folds_of(const files::TensorTable& tensors, const std::string& file) {
  std::map<std::string, LinearFolds> folds;
  for (const auto& [name, view] : tensors) {
    const std::string context = file + ": " + name;
    const std::string_view tensor = name;
    const std::size_t inputs = tensor.rfind(kInputs);
    const std::size_t outputs = tensor.rfind(kOutputs);
    if (tensor.ends_with(kConstantInput)) {
      folds[name.substr(0, name.size() - kConstantInput.size())].constant_input = read_floats(view, context);
    } else if (inputs != std::string_view::npos) {
      read_step(tensor.substr(inputs + kInputs.size()), view, context, folds[name.substr(0, inputs)].inputs);
    } else if (outputs != std::string_view::npos) {
      read_step(tensor.substr(outputs + kOutputs.size()), view, context, folds[name.substr(0, outputs)].outputs);
    } else {
      throw Error(context, "is no step that this version knows");
    }
  }
  return folds;
}

}  // namespace

void AxisFolds::scale(std::span<const float> factors) {
  if (!steps_.empty()) {
    if (auto* last = std::get_if<Scaling>(&steps_.back())) {
      for (std::size_t i = 0; i < factors.size(); ++i) last->factors[i] *= factors[i];
      return;
    }
  }
  steps_.emplace_back(Scaling{{factors.begin(), factors.end()}});
}

void AxisFolds::apply(std::span<double> values) const {
  for (const Step& step : steps_) {
    std::visit([&](const auto& known) { apply_step(known, values); }, step);
  }
}

void AxisFolds::check(std::size_t count, const std::string& context) const {
  for (const Step& step : steps_) {
    const auto* scaling = std::get_if<Scaling>(&step);
    const auto* rotation = std::get_if<Rotation>(&step);
    const bool fits =
        scaling != nullptr ? scaling->factors.size() == count : rotation == nullptr || count % rotation->order == 0;
    if (!fits) refuse_sizes(context);
  }
}

void LinearFolds::add_constant_input(std::span<const float> input) {
  assert(inputs.steps().empty() && outputs.steps().empty());
  constant_input.resize(input.size());
  for (std::size_t i = 0; i < input.size(); ++i) constant_input[i] += input[i];
}

std::string folds_bytes(const std::map<std::string, LinearFolds>& folds) {
  FoldTensors tensors;
  for (const auto& [module, own] : folds) {
    if (!own.constant_input.empty()) tensors.add(module + std::string(kConstantInput), own.constant_input);
    tensors.add(module + std::string(kInputs), own.inputs);
    tensors.add(module + std::string(kOutputs), own.outputs);
  }
  return tensors.bytes();
}

std::map<std::string, LinearFolds> parse_folds(std::string_view bytes, const std::string& context) {
  const files::SafetensorsContent content = files::parse_safetensors(std::as_bytes(std::span(bytes)), context);
  return folds_of(content.tensors, context);
}

std::map<std::string, LinearFolds> read_folds(const std::filesystem::path& path) {
  const files::SafetensorsFile file(path);
  file.verify_checksums();
  std::map<std::string, LinearFolds> folds = folds_of(file.tensors(), path.string());
  file.check_whole();
  return folds;
}

void apply_folds(const LinearFolds& folds, const std::string& context, LoraProduct& product) {
  folds.inputs.check(product.inputs, context);
  folds.outputs.check(product.outputs, context);
  if (!folds.constant_input.empty()) {
    if (folds.constant_input.size() != product.inputs) refuse_sizes(context);
    product.bias = product_with(product, folds.constant_input);
  }
  apply_to_all(folds.inputs, product.rank, product.inputs, product.inputs, 1, product.down);
  apply_to_all(folds.outputs, product.rank, product.outputs, 1, product.rank, product.up);
  if (!product.bias.empty()) apply_to_all(folds.outputs, 1, product.outputs, product.outputs, 1, product.bias);
}

}  // namespace ballast::model
