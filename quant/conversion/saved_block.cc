#include "quant/conversion/saved_block.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "files/checkpoint.h"
#include "formats/code_matrix.h"
#include "formats/decode_floats.h"
#include "formats/float_type.h"
#include "jobs/saved_arrays.h"
#include "model/structure/block_structure.h"

namespace ballast::quant {

namespace {

jobs::SavedArraysReader read_block(std::string_view saved) {
  return {saved, "saved progress", "a block is damaged and was dropped: give the command again"};
}

std::size_t bias_size(const ModulePlan& plan) {
  if (!plan.bias) return 0;
  return model::is_norm(plan.id.role) ? plan.cols : plan.rows;
}

ConvertedModule restore_module(ModulePlan plan, jobs::SavedArraysReader& arrays) {
  plan.format = parse_format(arrays.text());
  plan.half_type = arrays.text() == dtype_info(DType::kF16).name ? DType::kF16 : DType::kBF16;
  ConvertedModule module{.plan = std::move(plan), .values = {}, .quantized = {}, .bias = {}};
  const ModulePlan& known = module.plan;
  if (known.is_quantized()) {
    const std::vector<std::int32_t> columns(known.outlier_columns);
    module.quantized = formats::CodeMatrix(known.rows, known.cols, known.format, columns, known.half_type);
    formats::for_each_array(*module.quantized, [&](auto& array) { arrays.get(array); });
  } else {
    const DType dtype = formats::float_dtype(known.format.kind);
    const std::span<const std::byte> bytes = arrays.next();
    arrays.check(bytes.size() == known.rows * known.cols * dtype_info(dtype).block_bytes);
    module.values.resize(known.rows * known.cols);
    formats::decode_floats({dtype, {static_cast<std::int64_t>(module.values.size())}, bytes}, "saved progress",
                           module.values.data());
  }
  module.bias.resize(bias_size(known));
  arrays.get(module.bias);
  std::map<std::string, model::LinearFolds> folds = model::parse_folds(arrays.text(), "saved progress");
  module.folds = std::move(folds[known.name]);
  return module;
}

}  // namespace

std::string save_modules(std::span<const ConvertedModule> modules) {
  jobs::SavedArrays arrays;
  for (const ConvertedModule& module : modules) {
    arrays.add_text(format_name(module.plan.format));
    arrays.add_text(dtype_info(module.plan.half_type).name);
    if (module.quantized) {
      formats::for_each_array(*module.quantized, [&](const auto& array) { arrays.add(array); });
    } else {
      arrays.add_owned(formats::encode_floats(module.values, formats::float_dtype(module.plan.format.kind)));
    }
    arrays.add(module.bias);
    arrays.add_text(model::folds_bytes({{module.plan.name, module.folds}}));
  }
  return arrays.join();
}

std::vector<ConvertedModule> restore_modules(std::string_view saved, std::vector<ModulePlan> plan) {
  jobs::SavedArraysReader arrays = read_block(saved);
  std::vector<ConvertedModule> modules;
  for (ModulePlan& module : plan) modules.push_back(restore_module(std::move(module), arrays));
  arrays.finish();
  return modules;
}

}  // namespace ballast::quant
