#include "quant/write/ballast_format.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "files/atomic_output.h"
#include "files/safetensors/safetensors_writer.h"
#include "formats/codecs/ballast.h"
#include "formats/float_type.h"
#include "model/source/linear_folds.h"
#include "model/source/matrix_location.h"
#include "model/structure/block_structure.h"
#include "quant/write/metadata_files.h"

namespace ballast::quant {

namespace {

using files::TensorPlan;

std::int64_t signed_size(std::size_t size) {
  return static_cast<std::int64_t>(size);
}

/// Returns the tensors of a module in the order in which they are written.
std::vector<TensorPlan> tensors_of(const ModulePlan& module, DType vector_type) {
  const model::Role role = module.id.role;
  const Shape channels = {signed_size(module.cols)};
  if (model::is_vector(role)) return {{module.name, vector_type, channels}};
  std::vector<TensorPlan> tensors;
  if (model::is_norm(role)) {
    tensors.push_back({model::tensor_name(module.name, "weight"), vector_type, channels});
    if (module.bias) tensors.push_back({model::tensor_name(module.name, "bias"), vector_type, channels});
    return tensors;
  }
  if (module.is_quantized()) {
    tensors = formats::quantized_plans(module.name, {.rows = module.rows,
                                                     .cols = module.cols,
                                                     .format = module.format,
                                                     .outlier_columns = module.outlier_columns,
                                                     .scale_type = module.half_type,
                                                     .outlier_type = module.half_type});
  } else {
    tensors.push_back({module.name + ".weight",
                       formats::float_dtype(module.format.kind),
                       {signed_size(module.rows), signed_size(module.cols)}});
  }
  if (module.bias) tensors.push_back({module.name + ".bias", vector_type, {signed_size(module.rows)}});
  return tensors;
}

ModuleId id_of(const ModulePlan& module) {
  return module.id;
}

ModuleId id_of(const ConvertedModule& module) {
  return module.plan.id;
}

/// Orders the modules of a model, or of one of its blocks, for the file: the matrices of an expert are adjacent, so
/// that they can be read together. They share the positions of a layer's experts.
template <typename Module>
std::vector<const Module*> in_file_order(std::span<const Module> modules) {
  std::vector<const Module*> order;
  std::map<std::size_t, std::vector<std::size_t>> places;  // of each layer's experts
  for (const Module& module : modules) {
    const ModuleId id = id_of(module);
    if (is_routed_expert(id.role)) places[id.layer].push_back(order.size());
    order.push_back(&module);
  }
  for (const auto& [layer, own] : places) {
    std::vector<const Module*> experts;
    for (const std::size_t place : own) experts.push_back(order[place]);
    std::ranges::stable_sort(experts, {}, [](const Module* module) { return id_of(*module).expert; });
    for (std::size_t i = 0; i < own.size(); ++i) order[own[i]] = experts[i];
  }
  return order;
}

std::vector<TensorPlan> tensors_of(std::span<const ModulePlan> model, DType vector_type) {
  std::vector<TensorPlan> tensors;
  for (const ModulePlan* module : in_file_order(model)) {
    std::ranges::move(tensors_of(*module, vector_type), std::back_inserter(tensors));
  }
  return tensors;
}

class BallastWriter : public ModelWriter {
 public:
  BallastWriter(const std::filesystem::path& directory, std::span<const ModulePlan> model, DType vector_type)
      : directory_(directory), vector_type_(vector_type), tensors_(directory, tensors_of(model, vector_type), {}) {}

  void write(std::span<const ConvertedModule> block) override {
    for (const ConvertedModule* module : in_file_order(block)) write(*module);
  }

  std::uint64_t finish(const ModelMetadata& metadata) override {
    tensors_.finish();
    write_metadata_files(metadata, quantized_, vector_type_, directory_);
    files::write_file_atomically(directory_ / model::kFoldsFile, model::folds_bytes(folds_), false);
    return tensors_.file_bytes();
  }

 private:
  void write(const ConvertedModule& module) {
    const std::vector<TensorPlan> tensors = tensors_of(module.plan, vector_type_);
    std::size_t next = 0;
    if (module.quantized) {
      for (const formats::QuantizedPart& part : formats::quantized_parts(module.plan.name, module.quantized->view())) {
        tensors_.write(part.plan.name, part.plan.dtype, part.bytes);
        ++next;
      }
      quantized_.formats[module.plan.name] = format_name(module.plan.format);
      if (module.plan.activations == ActivationType::kInt16) quantized_.int16_activations.push_back(module.plan.name);
    } else {
      write(tensors[next++], module.values);
    }
    if (!module.bias.empty()) write(tensors[next], module.bias);
    if (!module.folds.empty()) folds_[module.plan.name] = module.folds;
  }

  void write(const TensorPlan& tensor, std::span<const float> values) {
    tensors_.write(tensor.name, tensor.dtype, formats::encode_floats(values, tensor.dtype));
  }

  std::filesystem::path directory_;
  DType vector_type_;
  files::SafetensorsWriter tensors_;
  QuantizedModules quantized_;
  std::map<std::string, model::LinearFolds> folds_;
};

}  // namespace

BallastFormat::BallastFormat(const Recipe& recipe) : vector_type_(formats::float_dtype(recipe.linears.kind)) {}

bool BallastFormat::holds(const ModulePlan& module) const {
  if (!module.is_quantized()) return module.outlier_columns == 0;
  return formats::holds_in_ballast(module.format);
}

std::string BallastFormat::describe(const ModulePlan& module) const {
  if (model::is_norm(module.id.role) || model::is_vector(module.id.role)) {
    return std::string(dtype_info(vector_type_).name);
  }
  std::string format = format_name(module.format);
  if (module.outlier_columns == 0) return format;
  return format + " + " + std::to_string(module.outlier_columns) + " columns " +
         (module.half_type == DType::kF16 ? "f16" : "bf16");
}

std::uint64_t BallastFormat::bytes(const ModulePlan& module) const {
  std::uint64_t bytes = 0;
  for (const TensorPlan& tensor : tensors_of(module, vector_type_)) bytes += files::planned_bytes(tensor);
  return bytes;
}

std::uint64_t BallastFormat::file_bytes(std::span<const ModulePlan> model) const {
  return files::planned_file_bytes(tensors_of(model, vector_type_));
}

std::unique_ptr<ModelWriter> BallastFormat::open(const std::filesystem::path& directory,
                                                 std::span<const ModulePlan> model) const {
  return std::make_unique<BallastWriter>(directory, model, vector_type_);
}

}  // namespace ballast::quant
