#include "quant/search/candidates.h"

#include <algorithm>
#include <string>

#include "ballast/error.h"

namespace ballast::quant {

namespace {

/// Returns whether rows have whole groups of this format, which rounding needs.
bool has_whole_groups(const WeightFormat& format) {
  return format.kind == WeightFormat::Kind::kAffine || format.kind == WeightFormat::Kind::kBlocks;
}

std::string listed(const std::vector<std::string>& words) {
  std::string list;
  for (std::size_t i = 0; i < words.size(); ++i) {
    list += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  }
  return list;
}

std::string not_a_multiple(std::size_t columns, std::size_t size) {
  return std::to_string(columns) + " columns are not a multiple of " + std::to_string(size);
}

/// Returns the group sizes with which all matrices of the module's format could be stored, the largest first.
std::vector<std::string> common_group_sizes(const ModulePlan& module, std::span<const ModulePlan> model,
                                            const ModelFormat& format) {
  std::vector<std::string> sizes;
  for (const std::size_t size : {std::size_t{128}, std::size_t{64}, std::size_t{32}}) {
    const auto holds = [&](ModulePlan other) {
      if (other.format != module.format) return true;
      other.format.group_size = size;
      return format.holds(other);
    };
    if (std::ranges::all_of(model, holds)) sizes.push_back(std::to_string(size));
  }
  return sizes;
}

/// Returns the names of those `formats` that the module can have.
std::vector<std::string> held_formats(ModulePlan module, std::span<const WeightFormat> formats,
                                      const ModelFormat& format) {
  std::vector<std::string> names;
  for (const WeightFormat& candidate : formats) {
    module.format = candidate;
    if (format.holds(module)) names.push_back(format_name(candidate));
  }
  return names;
}

/// Returns the module's format in groups of other sizes, in a GGUF's other blocks, and in floats.
std::vector<WeightFormat> similar_formats(const WeightFormat& format) {
  std::vector<WeightFormat> formats;
  if (format.kind == WeightFormat::Kind::kBlocks) {
    for (const DType type : writable_block_types()) formats.push_back(block_format(type));
  } else {
    for (const std::size_t size : {std::size_t{128}, std::size_t{64}, std::size_t{32}}) {
      formats.push_back(format);
      formats.back().group_size = size;
    }
  }
  formats.push_back({.kind = WeightFormat::Kind::kF16});
  return formats;
}

/// Returns the smallest number of which the rows would have to be a multiple; 0: they are not the problem.
std::size_t needed_row_multiple(ModulePlan module, const ModelFormat& format) {
  const std::size_t rows = module.rows;
  for (const std::size_t multiple :
       {std::size_t{2}, std::size_t{4}, std::size_t{8}, std::size_t{16}, std::size_t{32}}) {
    module.rows = (rows + multiple - 1) / multiple * multiple;
    if (format.holds(module)) return multiple;
  }
  return 0;
}

/// Returns whether the group size is that of all linears, and not of a format named for some.
bool has_common_groups(const Recipe& recipe, const ModulePlan& module) {
  const auto names = [&](const FormatOverride& entry) { return entry.format == module.format; };
  return module.format == recipe.linears && std::ranges::none_of(recipe.overrides, names);
}

/// Returns why the files cannot hold a module as planned, and what to do.
std::string obstacle(const Recipe& recipe, const ModulePlan& module, std::span<const ModulePlan> model,
                     const ModelFormat& format) {
  const std::vector<std::string> similar = held_formats(module, similar_formats(module.format), format);
  const std::string choose = similar.empty() ? "choose another format for it"
                                             : "choose " + listed(similar) + " for it (--format 'NAME=FORMAT')";
  if (module.format.kind == WeightFormat::Kind::kBlocks) {
    const std::size_t block = dtype_info(module.format.block_type).block_elements;
    if (module.cols % block != 0) return not_a_multiple(module.cols, block) + ", the values of a block; " + choose;
  } else if (module.format.group_size != 0 && module.cols % module.format.group_size != 0) {
    std::vector<std::string> sizes;
    if (has_common_groups(recipe, module)) sizes = common_group_sizes(module, model, format);
    return not_a_multiple(module.cols, module.format.group_size) + "; " +
           (sizes.empty() ? choose : "use --group-size " + listed(sizes));
  } else if (const std::size_t multiple = needed_row_multiple(module, format); multiple != 0) {
    return std::to_string(module.rows) + " rows are not a multiple of " + std::to_string(multiple) + "; " + choose;
  }
  return choose;
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
                                 (module.outlier_columns == 0 ? "" : " with columns in 16 bits") + ": " +
                                 obstacle(recipe, module, model, format));
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
