#include "quant/write/converted_module.h"

#include <utility>

#include "model/structure/block_structure.h"

namespace ballast::quant {

namespace {

bool keeps_bias(const WorkingNorm& norm, bool norm_bias) {
  return norm_bias && !norm.bias.empty();
}

ModulePlan plan_norm(const WorkingNorm& norm, std::size_t layer, bool norm_bias) {
  return {.id = {.role = norm.role, .layer = layer},
          .name = norm.name,
          .cols = norm.gain.size(),
          .bias = keeps_bias(norm, norm_bias),
          .bytes_before = norm.bytes_before};
}

ModulePlan plan_vector(const WorkingVector& vector, std::size_t layer) {
  return {.id = {.role = vector.role, .layer = layer},
          .name = vector.name,
          .cols = vector.values.size(),
          .bytes_before = vector.bytes_before};
}

}  // namespace

std::size_t ModulePlan::weights() const {
  return rows * cols + (bias && model::is_norm(id.role) ? cols : 0);
}

ModulePlan plan_linear(const WorkingLinear& linear, std::size_t layer) {
  return {.id = {.role = linear.part.role, .layer = layer, .expert = linear.part.expert},
          .name = linear.name,
          .rows = linear.rows,
          .cols = linear.cols,
          .format = linear.format,
          .free_format = linear.free_format,
          .outlier_columns = linear.outlier_columns.size(),
          .half_type = linear.half_type(),
          .bias = !linear.bias.empty(),
          .activations = linear.activations,
          .bytes_before = linear.bytes_before};
}

std::vector<ModulePlan> plan_modules(const WorkingBlock& block, bool norm_bias) {
  std::vector<ModulePlan> modules;
  for (const WorkingNorm& norm : block.norms) modules.push_back(plan_norm(norm, block.layer.value_or(0), norm_bias));
  for (const WorkingLinear& linear : block.linears) modules.push_back(plan_linear(linear, block.layer.value_or(0)));
  for (const WorkingVector& vector : block.vectors) {
    if (vector.is_written) modules.push_back(plan_vector(vector, block.layer.value_or(0)));
  }
  return modules;
}

std::vector<ConvertedModule> take_modules(WorkingBlock block, bool norm_bias) {
  std::vector<ConvertedModule> modules;
  for (ModulePlan& plan : plan_modules(block, norm_bias)) modules.emplace_back().plan = std::move(plan);
  auto next = modules.begin();
  for (WorkingNorm& norm : block.norms) {
    next->values = std::move(norm.gain);
    if (next->plan.bias) next->bias = std::move(norm.bias);
    ++next;
  }
  for (WorkingLinear& linear : block.linears) {
    next->quantized = std::move(linear.quantized);
    if (!next->quantized) next->values = linear.take_values();
    next->bias = std::move(linear.bias);
    next->folds = std::move(linear.folds);
    ++next;
  }
  for (WorkingVector& vector : block.vectors) {
    if (vector.is_written) (next++)->values = std::move(vector.values);
  }
  return modules;
}

}  // namespace ballast::quant
