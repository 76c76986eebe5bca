#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "ballast/convert.h"
#include "model/source/tensor_groups.h"
#include "quant/conversion/conversion_forecast.h"
#include "quant/conversion/conversion_inputs.h"
#include "quant/search/candidates.h"
#include "quant/write/model_formats.h"

namespace ballast {

namespace {

ConvertPlan::Group group_of(const quant::ModulePlan& least, const quant::ModulePlan& most,
                            const quant::ModelFormat& format) {
  const std::string smallest = format.describe(least);
  const std::string largest = format.describe(most);
  return {.name = least.name,
          .format = smallest == largest ? smallest : smallest + " to " + largest,
          .tensors = 1,
          .weights = least.weights(),
          .bytes_before = least.bytes_before,
          .least_bytes = format.bytes(least),
          .most_bytes = format.bytes(most)};
}

void merge(ConvertPlan::Group& group, const ConvertPlan::Group& module) {
  group.weights += module.weights;
  group.bytes_before += module.bytes_before;
  group.least_bytes += module.least_bytes;
  group.most_bytes += module.most_bytes;
}

}  // namespace

ConvertPlan plan_conversion(const std::filesystem::path& model, const ConvertOptions& options) {
  const auto source = std::make_shared<model::ModelSource>(model);
  source->set_compute(options.calibration.compute);
  ConvertOptions fitting = options;
  const std::unique_ptr<quant::ModelFormat> made = quant::fit_model_format(source, fitting);
  const quant::ModelFormat& format = *made;
  quant::ConversionInputs inputs(source, fitting, format);
  inputs.make_plan();
  const std::vector<quant::ModulePlan>& modules = inputs.plan();
  quant::PlanLimits limits = {modules, modules};
  if (inputs.chooses_formats()) limits = quant::plan_limits(modules, format);

  model::GroupedTensors<ConvertPlan::Group> groups;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    groups.add(
        group_of(limits.least[i], limits.most[i], format),
        [](const auto& a, const auto& b) { return a.format == b.format; }, merge);
  }
  ConvertPlan plan{.groups = groups.finish(),
                   .bytes_before = inputs.source().checkpoint().file_bytes(),
                   .least_bytes = format.file_bytes(limits.least),
                   .most_bytes = format.file_bytes(limits.most),
                   .calibrates = inputs.calibrates(),
                   .job = {}};
  if (inputs.chooses_formats()) plan.most_bytes = std::min(plan.most_bytes, inputs.recipe().target_bytes);
  if (inputs.runs_samples()) {
    const bool chooses = inputs.chooses_formats();
    plan.job = quant::forecast_conversion(inputs, {chooses, !chooses && inputs.rounds_tied_head()});
  }
  return plan;
}

std::string convert_plan_json(const ConvertPlan& plan) {
  nlohmann::json groups = nlohmann::json::array();
  for (const ConvertPlan::Group& group : plan.groups) {
    groups.push_back({{"name", group.name},
                      {"format", group.format},
                      {"tensors", group.tensors},
                      {"weights", group.weights},
                      {"bytes_before", group.bytes_before},
                      {"least_bytes", group.least_bytes},
                      {"most_bytes", group.most_bytes}});
  }
  nlohmann::json object{{"groups", groups},
                        {"bytes_before", plan.bytes_before},
                        {"least_bytes", plan.least_bytes},
                        {"most_bytes", plan.most_bytes},
                        {"calibrates", plan.calibrates}};
  if (plan.job) {
    object["seconds"] = plan.job->seconds;
    object["memory_bytes"] = plan.job->memory_bytes;
    object["available_bytes"] = plan.job->available_bytes;
  }
  return object.dump();
}

}  // namespace ballast
