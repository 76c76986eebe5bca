#include "quant/search/candidates.h"

#include <algorithm>

#include "ballast/error.h"

namespace ballast::quant {

namespace {

/// Of these a row has whole groups, without which it cannot be rounded at all.
bool has_whole_groups(const WeightFormat& format) {
  return format.kind == WeightFormat::Kind::kAffine || format.kind == WeightFormat::Kind::kBlocks;
}

}  // namespace

std::vector<ModulePlan> candidate_plans(ModulePlan matrix, const ModelFormat& format) {
  std::vector<ModulePlan> plans;
  matrix.bias = false;
  matrix.outlier_columns = 0;
  for (const WeightFormat& candidate : format.candidates()) {
    matrix.format = candidate;
    if (format.holds(matrix)) plans.push_back(matrix);
  }
  if (plans.empty()) throw Error(matrix.name, "has no format to choose: name one for it");
  return plans;
}

std::uint64_t bytes_of_column(ModulePlan matrix, const ModelFormat& format) {
  matrix = candidate_plans(std::move(matrix), format).front();
  const std::uint64_t without = format.bytes(matrix);
  matrix.outlier_columns = 1;
  return format.holds(matrix) ? format.bytes(matrix) - without : 0;
}

PlanLimits plan_limits(std::span<const ModulePlan> model, const ModelFormat& format) {
  PlanLimits limits = {{model.begin(), model.end()}, {model.begin(), model.end()}};
  for (std::size_t i = 0; i < model.size(); ++i) {
    if (!model[i].free_format) continue;
    const std::vector<ModulePlan> plans = candidate_plans(model[i], format);
    const auto [least, most] =
        std::ranges::minmax_element(plans, {}, [&](const ModulePlan& plan) { return format.bytes(plan); });
    limits.least[i].format = least->format;
    limits.most[i].format = most->format;
  }
  return limits;
}

void check_plan(const Recipe& recipe, std::span<const ModulePlan> model, const ModelFormat& format) {
  for (const ModulePlan& module : model) {
    // Passes round by a free module's own format before another is chosen.
    const bool replaced = module.free_format && recipe.target_bytes != 0;
    if ((replaced && !has_whole_groups(module.format)) || format.holds(module)) continue;
    throw Error(module.name, "cannot be stored as " + format_name(module.format) +
                                 (module.outlier_columns == 0 ? "" : " with columns in 16 bits") +
                                 ": choose another format for it");
  }
  format.check_together(model);
  if (recipe.target_bytes == 0) return;
  const std::uint64_t least = format.file_bytes(plan_limits(model, format).least);
  if (least <= recipe.target_bytes) return;
  throw Error("target size", std::to_string(recipe.target_bytes) +
                                 " bytes are too few: with the smallest formats the model takes " +
                                 std::to_string(least));
}

}  // namespace ballast::quant
