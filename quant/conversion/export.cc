#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ballast/convert.h"
#include "ballast/error.h"
#include "files/json_reader.h"
#include "formats/code_matrix.h"
#include "formats/codecs/ballast.h"
#include "formats/float_type.h"
#include "model/source/model_source.h"
#include "model/source/written_spec.h"
#include "model/structure/block_structure.h"
#include "quant/block/working_block.h"
#include "quant/conversion/conversion_report.h"
#include "quant/conversion/draft_head_block.h"
#include "quant/conversion/model_output.h"
#include "quant/conversion/step_reporter.h"
#include "quant/write/model_formats.h"
#include "quant/write/repacking.h"

namespace ballast::quant {

namespace {

std::vector<float> matrix_values(const model::ModelSource& source, const ModuleId& id) {
  const auto stored = source.quantized_ranges(id.role, id.layer, id.expert);
  if (stored.empty()) {
    std::vector<float> values = source.float_weights(id.role, id.layer, id.expert).values;
    source.release({id.role, id.expert}, id.layer);
    return values;
  }
  std::vector<float> values = formats::CodeMatrix(stored.front()->view()).decoded();
  stored.front()->release();
  return values;
}

/// Returns a module's values and bias, for any format.
std::pair<std::vector<float>, std::vector<float>> module_values(const model::ModelSource& source, const ModuleId& id) {
  if (model::is_vector(id.role)) return {source.vector(id.role, id.layer), {}};
  if (model::is_norm(id.role)) {
    model::Norm norm = source.norm(id.role, id.layer);
    return {std::move(norm.gain), std::move(norm.bias)};
  }
  return {matrix_values(source, id), source.bias(id.role, id.layer, id.expert)};
}

/// Returns config.json without ballast's fields.
nlohmann::json own_config(const model::ModelSource& source) {
  nlohmann::json config = source.config();
  for (const char* field : {model::kWrittenSpecField, "quantization_config"}) config.erase(field);
  return config;
}

std::string advice(OutputFormat output_format) {
  return "round the original instead, `ballast convert ORIGINAL -o OUT --to " +
         std::string(output_format_name(output_format)) + "`";
}

/// Throws Error if ballast did not write the model, or if it has what readers of other files do not expect: rows in
/// several formats, or norms or biases that folds created.
void check_exportable(const model::ModelSource& source, OutputFormat output_format) {
  const std::string file = source.checkpoint().path().string();
  if (!source.config().contains(model::kWrittenSpecField)) {
    throw Error(file, "is no model that ballast wrote: `ballast convert` takes it");
  }
  for (const model::Role role : {model::Role::kEmbedding, model::Role::kHead}) {
    const std::size_t ranges = source.quantization() ? source.quantization()->modules_of(source.name(role)).size() : 0;
    if (ranges <= 1) continue;
    throw Error(file, source.name(role) + " has " + std::to_string(ranges) +
                          " ranges of rows with formats of their own, which " +
                          std::string(output_format_name(output_format)) + " cannot hold: " + advice(output_format));
  }
  const nlohmann::json config = own_config(source);
  const ModelSpec own = source.architecture().describe(files::JsonReader(config, file + "/config.json"));
  if (model::written_spec(own) == model::written_spec(source.spec()) && own.norm.gain_offset == 0) return;
  throw Error(file, "has norms or biases that its family has not, as folds make them: " + advice(output_format));
}

/// Exports a model that ballast wrote to other files.
class Exporter {
 public:
  Exporter(const model::ModelSource& source, OutputFormat output_format, const ModelFormat& format, Recipe recipe)
      : source_(source),
        output_format_(output_format),
        format_(format),
        recipe_(std::move(recipe)),
        blocks_(source, nullptr, {}) {
    for (std::size_t index = 0; index < blocks_.count(); ++index) plan_.push_back(plan_block(index));
    format_.check_together(whole_plan());
  }

  /// Returns the bytes of the tensor files.
  std::uint64_t write(const std::filesystem::path& directory, StepReporter& steps) const {
    const std::unique_ptr<ModelWriter> writer = format_.open(directory, whole_plan());
    for (std::size_t index = 0; index < plan_.size(); ++index) {
      std::vector<ConvertedModule> block;
      for (const ModulePlan& module : plan_[index]) block.push_back(convert(module));
      writer->write(block);
      steps.report("exporting", index + 1, plan_.size());
    }
    const nlohmann::json config = own_config(source_);
    return writer->finish({.original = source_.checkpoint(),
                           .config = config,
                           .spec = source_.spec(),
                           .recipe = recipe_,
                           .prefix = {},
                           .massive_tokens = source_.massive_tokens()});
  }

  /// Reads the written files. Throws Error if they differ from the model.
  void check(const std::filesystem::path& written, StepReporter& steps) const {
    const model::ModelSource copy(written);
    for (std::size_t index = 0; index < plan_.size(); ++index) {
      for (const ModulePlan& module : plan_[index]) {
        if (module_values(source_, module.id) != module_values(copy, module.id)) refuse(module);
      }
      steps.report("comparing", index + 1, plan_.size());
    }
  }

  ConvertReport report(std::uint64_t bytes) const {
    ModuleTally tally(format_);
    for (const std::vector<ModulePlan>& block : plan_) {
      for (const ModulePlan& module : block) tally.add(module);
    }
    ConvertReport report;
    report.notes.push_back("all values are the model's, compared after they were written");
    if (source_.has_draft_head()) report.notes.emplace_back(kDraftHeadLeftOut);
    report.groups = tally.groups(nullptr);
    report.bytes_before = source_.checkpoint().file_bytes();
    report.bytes_after = bytes;
    report.bits_per_weight = 8.0 * static_cast<double>(bytes) / static_cast<double>(tally.weights());
    return report;
  }

 private:
  std::vector<ModulePlan> whole_plan() const {
    std::vector<ModulePlan> plan;
    for (const std::vector<ModulePlan>& block : plan_) std::ranges::copy(block, std::back_inserter(plan));
    return plan;
  }

  /// Returns the plan of a block's modules in formats of the files that hold the same values. Throws Error if there is
  /// none.
  std::vector<ModulePlan> plan_block(std::size_t index) const {
    WorkingBlock block = blocks_.load(index, false);
    for (WorkingLinear& linear : block.linears) describe(linear, block.layer.value_or(0));
    std::vector<ModulePlan> plan = plan_modules(block, source_.spec().norm.bias);
    for (ModulePlan& module : plan) {
      if (model::is_norm(module.id.role) || model::is_vector(module.id.role)) continue;
      const std::optional<WeightFormat> exact = format_.exact_format(module, recipe_.activations);
      ModulePlan exported = module;
      if (exact) exported.format = *exact;
      if (!exact || !format_.holds(exported)) refuse(module);
      module = exported;
    }
    return plan;
  }

  /// Sets the format that the matrix has in the model.
  void describe(WorkingLinear& linear, std::size_t layer) const {
    const auto stored = source_.quantized_ranges(linear.part.role, layer, linear.part.expert);
    if (stored.empty()) {
      linear.format.kind = formats::float_kind(source_.checkpoint().tensor(linear.name + ".weight").dtype);
      return;
    }
    linear.format = source_.quantization()->tensors.at(linear.name);
    const QuantizedView& view = stored.front()->view();
    linear.scale_type = view.scale_type;
    linear.outlier_columns.assign(view.outlier_columns.begin(), view.outlier_columns.end());
  }

  ConvertedModule convert(const ModulePlan& plan) const {
    ConvertedModule module{.plan = plan, .values = {}, .quantized = {}, .bias = {}};
    const ModuleId& id = plan.id;
    if (const auto stored = source_.quantized_ranges(id.role, id.layer, id.expert); !stored.empty()) {
      module.quantized = repacked(stored.front()->view(), plan.format, plan.half_type);
      module.bias = source_.bias(id.role, id.layer, id.expert);
      stored.front()->release();
    } else {
      std::tie(module.values, module.bias) = module_values(source_, id);
    }
    return module;
  }

  [[noreturn]] void refuse(const ModulePlan& module) const {
    const auto stored = source_.quantized_ranges(module.id.role, module.id.layer, module.id.expert);
    std::string is = "has values";
    if (!stored.empty()) {
      is = "is " + format_name(source_.quantization()->tensors.at(module.name));
      if (!stored.front()->view().outlier_columns.empty()) is += " with columns in 16 bits";
    }
    throw Error(module.name, is + ", which " + std::string(output_format_name(output_format_)) +
                                 " cannot hold exactly: " + advice(output_format_));
  }

  const model::ModelSource& source_;
  OutputFormat output_format_;
  const ModelFormat& format_;
  Recipe recipe_;
  WorkingBlockLoader blocks_;
  std::vector<std::vector<ModulePlan>> plan_;  ///< for each block
};

}  // namespace

}  // namespace ballast::quant

namespace ballast {

ConvertReport export_model(const std::filesystem::path& model, const std::filesystem::path& output,
                           const ExportOptions& options, const Progress& progress) {
  if (options.output_format == OutputFormat::kBallast) throw Error(model.string(), "is ballast's own already");
  const auto opened = std::make_shared<const model::ModelSource>(model);
  const model::ModelSource& source = *opened;
  quant::check_exportable(source, options.output_format);
  const Recipe recipe = read_recipe(model / "recipe.json");
  const std::unique_ptr<quant::ModelFormat> format = quant::make_model_format(opened, options.output_format, recipe);
  const quant::Exporter exporter(source, options.output_format, *format, recipe);
  quant::check_replaceable(*format, output, options.replace);
  quant::ModelOutput files(*format, output, options.replace);
  quant::StepReporter steps(progress);
  const std::uint64_t bytes = exporter.write(files.directory(), steps);
  exporter.check(files.model(), steps);
  source.checkpoint().check_whole();
  files.commit();
  return exporter.report(bytes);
}

}  // namespace ballast
