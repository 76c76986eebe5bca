#include "quant/write/block_writer.h"

#include <algorithm>
#include <utility>

#include "kernels/matrix/float_matrix.h"
#include "model/source/quantized_tensor.h"
#include "model/source/tensor_groups.h"
#include "text/tokenizer.h"

namespace ballast::quant {

namespace {

std::int64_t signed_size(std::size_t size) {
  return static_cast<std::int64_t>(size);
}

/// Values in the type in which they are stored; none while planning.
std::vector<std::byte> encode(std::span<const float> values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * dtype_info(dtype).block_bytes);
  const kernels::FloatType type = dtype == DType::kF16    ? kernels::FloatType::kF16
                                  : dtype == DType::kBF16 ? kernels::FloatType::kBF16
                                                          : kernels::FloatType::kF32;
  kernels::from_float(values.data(), values.size(), type, bytes.data());
  return bytes;
}

StoredTensor store_vector(const std::string& name, const std::vector<float>& values, DType dtype) {
  return {{name, dtype, {signed_size(values.size())}}, encode(values, dtype)};
}

StoredModule store_norm(const WorkingNorm& norm, DType small, bool with_bias) {
  StoredModule module{.name = norm.name,
                      .format = std::string(dtype_info(small).name),
                      .weights = norm.gain.size(),
                      .bytes_before = norm.bytes_before,
                      .tensors = {}};
  module.tensors.push_back(store_vector(model::tensor_name(norm.name, "weight"), norm.gain, small));
  if (with_bias && !norm.bias.empty()) {
    module.weights += norm.bias.size();
    module.tensors.push_back(store_vector(model::tensor_name(norm.name, "bias"), norm.bias, small));
  }
  return module;
}

std::string format_of(const WorkingLinear& linear) {
  std::string format = format_name(linear.format);
  const std::size_t outliers = linear.outlier_columns.size();
  if (!linear.quantized || outliers == 0) return format;
  return format + " + " + std::to_string(outliers) + " columns " +
         (linear.quantized->outlier_type == DType::kF16 ? "f16" : "bf16");
}

StoredModule store_linear(const WorkingLinear& linear, DType small) {
  StoredModule module{.name = linear.name,
                      .format = format_of(linear),
                      .quantized = linear.quantized.has_value(),
                      .int16_activations = linear.activations == Recipe::Activations::kFloat,
                      .weights = linear.rows * linear.cols,
                      .bytes_before = linear.bytes_before,
                      .tensors = {}};
  if (linear.quantized) {
    for (const model::QuantizedPart& part : model::quantized_parts(linear.name, linear.quantized->view())) {
      module.tensors.push_back({part.plan, {part.bytes.begin(), part.bytes.end()}});
    }
  } else {
    const DType dtype = float_dtype(linear.format.kind);
    module.tensors.push_back({{linear.name + ".weight", dtype, {signed_size(linear.rows), signed_size(linear.cols)}},
                              encode(linear.values, dtype)});
  }
  if (!linear.bias.empty()) module.tensors.push_back(store_vector(linear.name + ".bias", linear.bias, small));
  return module;
}

std::uint64_t module_bytes(const StoredModule& module) {
  std::uint64_t bytes = 0;
  for (const StoredTensor& tensor : module.tensors) bytes += planned_bytes(tensor.plan);
  return bytes;
}

}  // namespace

DType float_dtype(WeightFormat::Kind kind) {
  switch (kind) {
    case WeightFormat::Kind::kF16:
      return DType::kF16;
    case WeightFormat::Kind::kBF16:
      return DType::kBF16;
    default:
      return DType::kF32;
  }
}

DType small_type(const Recipe& recipe) {
  return float_dtype(recipe.linears.kind);
}

std::vector<StoredModule> store_block(const WorkingBlock& block, DType small, bool norm_bias) {
  std::vector<StoredModule> modules;
  for (const WorkingNorm& norm : block.norms) modules.push_back(store_norm(norm, small, norm_bias));
  for (const WorkingLinear& linear : block.linears) modules.push_back(store_linear(linear, small));
  for (const WorkingVector& vector : block.vectors) {
    StoredModule module{.name = vector.name,
                        .format = std::string(dtype_info(small).name),
                        .weights = vector.values.size(),
                        .bytes_before = vector.bytes_before,
                        .tensors = {}};
    module.tensors.push_back(store_vector(vector.name, vector.values, small));
    modules.push_back(std::move(module));
  }
  return modules;
}

std::uint64_t planned_bytes(const files::TensorPlan& plan) {
  return static_cast<std::uint64_t>(element_count(plan.shape)) * dtype_info(plan.dtype).block_bytes;
}

std::uint64_t planned_bytes(const std::vector<StoredModule>& modules) {
  std::uint64_t bytes = 0;
  for (const StoredModule& module : modules) bytes += module_bytes(module);
  return bytes;
}

void StoredReport::add(const std::vector<StoredModule>& modules) {
  for (const StoredModule& module : modules) {
    if (module.quantized) formats_[module.name] = module.format.substr(0, module.format.find(' '));
    if (module.quantized && module.int16_activations) int16_activation_modules_.push_back(module.name);
    modules_.push_back({.name = module.name,
                        .format = module.format,
                        .tensors = 1,
                        .weights = module.weights,
                        .bytes_before = module.bytes_before,
                        .bytes_after = module_bytes(module)});
  }
}

std::vector<TensorGroupReport> StoredReport::groups(const Allocation* allocation) const {
  model::GroupedTensors<TensorGroupReport> groups;
  for (TensorGroupReport module : modules_) {
    const MatrixAllocation* chosen = allocation == nullptr ? nullptr : allocation->find(module.name);
    if (chosen != nullptr) {
      module.cost = chosen->cost;
      module.next_gain = chosen->next_gain;
    }
    groups.add(
        std::move(module), [](const auto& a, const auto& b) { return a.format == b.format; },
        [](TensorGroupReport& group, const TensorGroupReport& tensor) {
          group.weights += tensor.weights;
          group.bytes_before += tensor.bytes_before;
          group.bytes_after += tensor.bytes_after;
          group.cost += tensor.cost;
          group.next_gain = std::max(group.next_gain, tensor.next_gain);
        });
  }
  return groups.finish();
}

}  // namespace ballast::quant
