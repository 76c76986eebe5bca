#include "quant/conversion/conversion_report.h"

#include <algorithm>
#include <utility>

#include "model/source/tensor_groups.h"
#include "model/structure/block_structure.h"
#include "quant/quantize/quantize.h"

namespace ballast::quant {

namespace {

bool is_matrix(model::Role role) {
  return !model::is_norm(role) && !model::is_vector(role);
}

void merge(TensorGroupReport& group, const TensorGroupReport& module) {
  group.weights += module.weights;
  group.bytes_before += module.bytes_before;
  group.bytes_after += module.bytes_after;
  group.cost += module.cost;
  group.next_gain = std::max(group.next_gain, module.next_gain);
}

std::string untied_head_note(const ConversionInputs& inputs, const std::vector<TensorGroupReport>& groups) {
  const auto head = std::ranges::find(groups, inputs.source().name(model::Role::kHead), &TensorGroupReport::name);
  return "untie_head: the head is a matrix of its own now and takes " + std::to_string(head->bytes_after) +
         " bytes more";
}

}  // namespace

void ModuleTally::add(const ModulePlan& module) {
  if (is_matrix(module.id.role)) ++matrices_[format_name(module.format)];
  if (module.is_quantized()) ++quantized_;
  if (module.is_quantized() && module.activations == ActivationType::kInt16) ++int16_activations_;
  weights_ += module.weights();
  rows_.push_back({module.id,
                   {.name = module.name,
                    .format = format_.describe(module),
                    .outlier_columns = module.outlier_columns,
                    .tensors = 1,
                    .weights = module.weights(),
                    .bytes_before = module.bytes_before,
                    .bytes_after = format_.bytes(module)}});
}

std::vector<TensorGroupReport> ModuleTally::groups(const Allocation* allocation) const {
  model::GroupedTensors<TensorGroupReport> groups;
  for (const Row& row : rows_) {
    TensorGroupReport report = row.report;
    const MatrixAllocation* chosen = allocation == nullptr ? nullptr : allocation->find(row.id);
    if (chosen != nullptr) {
      report.cost = chosen->cost;
      report.next_gain = chosen->next_gain;
    }
    groups.add(std::move(report), [](const auto& a, const auto& b) { return a.format == b.format; }, merge);
  }
  return groups.finish();
}

ConvertReport conversion_report(const ConversionInputs& inputs, const ModuleTally& modules,
                                const Allocation* allocation, const std::vector<std::string>& notes,
                                std::uint64_t bytes) {
  ConvertReport report;
  report.groups = modules.groups(allocation);
  const Recipe& recipe = inputs.recipe();
  if (modules.int16_activations() > 0 && recipe.activations == ActivationType::kInt8) {
    report.notes.push_back("activations: INT8, but 16 bits in front of " + std::to_string(modules.int16_activations()) +
                           " of " + std::to_string(modules.quantized()) + " matrices");
  }
  if (inputs.unties_head()) report.notes.push_back(untied_head_note(inputs, report.groups));
  report.notes.insert(report.notes.end(), notes.begin(), notes.end());
  report.notes.push_back(quantize_note(recipe.rounding, modules.matrices()));
  if (!inputs.prefix().empty()) {
    report.notes.push_back("prefix: tokens " + prefix_name({.tokens = inputs.prefix()}) +
                           " are in the cache before every sequence");
  }
  report.bytes_before = inputs.source().checkpoint().file_bytes();
  report.bytes_after = bytes;
  report.bits_per_weight = 8.0 * static_cast<double>(bytes) / static_cast<double>(modules.weights());
  if (allocation != nullptr) report.divergence = allocation->cost;
  return report;
}

}  // namespace ballast::quant
