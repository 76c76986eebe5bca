#include "quant/write/gguf_format.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

#include "ballast/error.h"
#include "formats/codecs/gguf_blocks.h"
#include "formats/float_type.h"
#include "jobs/written_by.h"
#include "model/arch/gguf_fields.h"
#include "model/source/generation_config.h"
#include "model/source/matrix_location.h"
#include "model/structure/block_structure.h"
#include "text/gguf_fields.h"

namespace ballast::quant {

namespace {

using files::TensorPlan;

bool has_whole_blocks(const ModelSpec& spec) {
  const AttentionSpec* attention = spec.first_attention();
  const std::size_t heads = attention == nullptr ? 0 : attention->heads * attention->value_size;
  const auto whole = [](std::size_t cols) { return cols % formats::kLargestBlock == 0; };
  return whole(spec.hidden_size) && whole(heads) && std::ranges::all_of(spec.layers, [&](const LayerSpec& layer) {
           const auto& experts = layer.mlp.experts;
           return experts ? whole(experts->size) && whole(experts->shared_size) : whole(layer.mlp.size);
         });
}

/// Returns the type of most weights in matrices.
DType most_common_dtype(std::span<const ModulePlan> model) {
  std::map<DType, std::size_t> weights;
  for (const ModulePlan& module : model) {
    if (model::is_norm(module.id.role) || model::is_vector(module.id.role)) continue;
    weights[formats::gguf_dtype(module.format)] += module.weights();
  }
  return std::ranges::max_element(weights, {}, [](const auto& entry) { return entry.second; })->first;
}

/// Returns whether the parts of the family's fused matrix are stacked in one tensor.
bool stacks_parts(const model::FusedTensor& fused) {
  return !fused.gguf.empty() && fused.runs == model::FusedTensor::Runs::kOne;
}

/// Returns the fused tensor with a role's rows in GGUFs of the family; or null.
const model::FusedTensor* fused_tensor(const model::Architecture& architecture, model::Role role) {
  for (const model::FusedTensor& fused : architecture.fused) {
    if (stacks_parts(fused) && std::ranges::find(fused.parts, role) != fused.parts.end()) return &fused;
  }
  return nullptr;
}

/// Returns whether two matrices are in one tensor: experts of one role, or parts that the family fuses.
bool lie_together(const model::Architecture& architecture, const ModuleId& a, const ModuleId& b) {
  if (a.layer != b.layer) return false;
  if (is_routed_expert(a.role)) return a.role == b.role;
  const model::FusedTensor* fused = fused_tensor(architecture, a.role);
  return fused != nullptr && fused == fused_tensor(architecture, b.role);
}

bool begins_tensor(const model::Architecture& architecture, const ModuleId& id) {
  if (is_routed_expert(id.role)) return id.expert == 0;
  const model::FusedTensor* fused = fused_tensor(architecture, id.role);
  return fused == nullptr || fused->parts.front() == id.role;
}

[[noreturn]] void refuse_prefix() {
  throw Error("prefix", "a GGUF cannot hold tokens before every sequence");
}

/// Returns rows of `row_bytes` bytes in another order: row r is moved to order[r].
std::vector<std::byte> in_order(std::span<const std::byte> rows, std::size_t row_bytes,
                                const std::vector<std::size_t>& order) {
  std::vector<std::byte> moved(rows.begin(), rows.end());
  for (std::size_t r = 0; r < order.size(); ++r) {
    std::memcpy(moved.data() + order[r] * row_bytes, rows.data() + r * row_bytes, row_bytes);
  }
  return moved;
}

class GgufModelWriter : public ModelWriter {
 public:
  GgufModelWriter(std::shared_ptr<const model::ModelSource> source, const std::filesystem::path& file,
                  std::span<const files::GgufField> fields, std::vector<TensorPlan> plan,
                  std::span<const model::GgufVector> rope_tensors)
      : source_(std::move(source)), file_(file, fields, std::move(plan)) {
    for (const model::GgufVector& tensor : rope_tensors) {
      file_.write(DType::kF32, formats::encode_floats(tensor.values, DType::kF32));
    }
  }

  void write(std::span<const ConvertedModule> block) override {
    for (const ConvertedModule& module : block) {
      const ModulePlan& plan = module.plan;
      if (model::is_norm(plan.id.role) || model::is_vector(plan.id.role)) {
        file_.write(DType::kF32, formats::encode_floats(module.values, DType::kF32));
      } else if (begins_tensor(source_->architecture(), plan.id)) {
        write_matrix(block, module);
      }
      if (!module.bias.empty()) write_bias(module);
    }
  }

  std::uint64_t finish(const ModelMetadata& /*metadata*/) override { return file_.finish(); }

 private:
  /// Writes a matrix with all of its block that share its tensor: experts by their numbers, others in the family's
  /// order.
  void write_matrix(std::span<const ConvertedModule> block, const ConvertedModule& first) {
    const ModuleId& id = first.plan.id;
    std::vector<const ConvertedModule*> parts;
    for (const ConvertedModule& module : block) {
      const bool is_first = &module == &first;
      if (is_first || lie_together(source_->architecture(), id, module.plan.id)) parts.push_back(&module);
    }
    const model::FusedTensor* fused = fused_tensor(source_->architecture(), id.role);
    std::ranges::stable_sort(parts, {}, [&](const ConvertedModule* module) -> std::ptrdiff_t {
      if (fused == nullptr) return static_cast<std::ptrdiff_t>(module->plan.id.expert);
      return std::ranges::find(fused->parts, module->plan.id.role) - fused->parts.begin();
    });
    std::vector<std::byte> rows = stored_rows(*parts.front());
    rows.reserve(rows.size() * parts.size());  // parts of about one size
    for (const ConvertedModule* part : std::span(parts).subspan(1)) {
      const std::vector<std::byte> more = stored_rows(*part);
      rows.insert(rows.end(), more.begin(), more.end());
    }
    file_.write(formats::gguf_dtype(first.plan.format), rows);
  }

  std::vector<std::byte> stored_rows(const ConvertedModule& module) const {
    const ModulePlan& plan = module.plan;
    const std::vector<std::size_t> order = row_order(plan);
    std::vector<std::byte> rows;
    if (module.quantized) {
      const std::span<const std::byte> blocks = std::as_bytes(std::span(module.quantized->codes));
      rows.assign(blocks.begin(), blocks.end());
    } else {
      rows = formats::encode_floats(module.values, formats::gguf_dtype(plan.format));
    }
    return order.empty() ? rows : in_order(rows, rows.size() / plan.rows, order);
  }

  void write_bias(const ConvertedModule& module) {
    const std::vector<std::byte> bias = formats::encode_floats(module.bias, DType::kF32);
    const bool norm = model::is_norm(module.plan.id.role);
    file_.write(DType::kF32, norm ? bias : in_order(bias, sizeof(float), row_order(module.plan)));
  }

  std::vector<std::size_t> row_order(const ModulePlan& plan) const {
    const ModelSpec& spec = source_->spec();
    if (plan.id.layer >= spec.layers.size()) return {};
    const model::StorageLayout layout = {.architecture = &source_->architecture(), .gguf = true};
    return model::stored_row_order(layout, spec.layers[plan.id.layer], plan.id.role, plan.rows);
  }

  std::shared_ptr<const model::ModelSource> source_;
  files::GgufWriter file_;
};

}  // namespace

GgufFormat::GgufFormat(std::shared_ptr<const model::ModelSource> source)
    : source_(std::move(source)), whole_blocks_(has_whole_blocks(source_->spec())) {
  const std::filesystem::path& path = source_->checkpoint().path();
  const model::Architecture& architecture = source_->architecture();
  if (architecture.gguf_fields == nullptr) {
    throw Error(path.string(), "is a model of the family " + source_->spec().architecture +
                                   ", of which no GGUF can be written yet; supported: " + model::gguf_families());
  }
  if (!source_->prefix_tokens().empty()) refuse_prefix();
  fields_ = {{"general.architecture", std::string(architecture.gguf_architecture)},
             {"general.type", "model"},
             {"general.name", std::filesystem::absolute(path).lexically_normal().stem().string()},
             {"general.quantized_by", jobs::written_by()},
             {"general.quantization_version", std::uint32_t{2}}};
  std::ranges::move(architecture.gguf_fields(source_->spec()), std::back_inserter(fields_));
  const ModelSpec& model_spec = source_->spec();
  std::ranges::move(text::gguf_tokenizer_fields(source_->checkpoint(), model_spec.vocab_size, model_spec.stop_tokens),
                    std::back_inserter(fields_));
  std::ranges::move(model::gguf_sampling_fields(source_->checkpoint()), std::back_inserter(fields_));
  fields_.push_back({"general.file_type", std::uint32_t{0}});  // known with the modules
  rope_tensors_ = model::gguf_rope_tensors(source_->spec());
}

WeightFormat GgufFormat::fitting(const WeightFormat& format) const {
  return formats::fitting_blocks(format, whole_blocks_);
}

Recipe GgufFormat::fitting(const Recipe& recipe) const {
  if (!recipe.prefix.none()) refuse_prefix();
  Recipe fitting = recipe;
  fitting.fold_biases = false;
  fitting.center_norms = false;
  fitting.outlier_fraction = 0;
  fitting.linears = this->fitting(recipe.linears);
  fitting.embedding = this->fitting(recipe.embedding);
  fitting.head = this->fitting(recipe.head);
  for (FormatOverride& entry : fitting.overrides) entry.format = this->fitting(entry.format);
  if (!fitting.linears.quantizes()) return fitting;
  fitting.activations = ActivationType::kInt8;
  fitting.activation_groups = true;
  fitting.int16_activations_at_end = false;
  fitting.int16_activations_where_amplified = false;
  fitting.int16_activation_fraction = 0;
  return fitting;
}

bool GgufFormat::ties_formats() const {
  return std::ranges::any_of(source_->architecture().fused, stacks_parts);
}

bool GgufFormat::holds(const ModulePlan& module) const {
  if (module.outlier_columns > 0) return false;
  return !module.is_quantized() || formats::holds_blocks(module.format, module.cols);
}

void GgufFormat::check_together(std::span<const ModulePlan> model) const {
  const model::Architecture& architecture = source_->architecture();
  std::map<std::pair<std::size_t, model::Role>, const ModulePlan*> firsts;
  for (const ModulePlan& module : model) {
    const model::FusedTensor* fused = fused_tensor(architecture, module.id.role);
    if (fused == nullptr && !is_routed_expert(module.id.role)) continue;
    const model::Role role = fused == nullptr ? module.id.role : fused->parts.front();
    const ModulePlan* first = firsts.emplace(std::pair(module.id.layer, role), &module).first->second;
    if (first->format != module.format || first->free_format != module.free_format || module.bias) {
      throw Error(module.name, "is in one tensor with " + first->name + ": they must have one format, and no biases");
    }
  }
}

std::optional<WeightFormat> GgufFormat::exact_format(const ModulePlan& module, ActivationType /*activations*/) const {
  return module.format.quantizes() ? formats::exact_blocks(module.format) : module.format;
}

std::string GgufFormat::describe(const ModulePlan& module) const {
  if (model::is_norm(module.id.role) || model::is_vector(module.id.role)) return "F32";
  return std::string(dtype_info(formats::gguf_dtype(module.format)).name);
}

std::vector<TensorPlan> GgufFormat::tensors_of(const ModulePlan& module) const {
  const model::Role role = module.id.role;
  const std::string name =
      model::stored_names(source_->architecture(), role, true, module.id.layer, module.id.expert).front();
  const auto rows = static_cast<std::int64_t>(module.rows);
  const auto cols = static_cast<std::int64_t>(module.cols);
  if (model::is_vector(role)) return {{name, DType::kF32, {cols}}};
  const bool norm = model::is_norm(role);
  std::vector<TensorPlan> tensors = {
      norm ? TensorPlan{name + ".weight", DType::kF32, {cols}}
           : TensorPlan{name + ".weight", formats::gguf_dtype(module.format), {rows, cols}}};
  if (module.bias) tensors.push_back({name + ".bias", DType::kF32, {norm ? cols : rows}});
  return tensors;
}

std::vector<TensorPlan> GgufFormat::tensors_of(std::span<const ModulePlan> model) const {
  const model::Architecture& architecture = source_->architecture();
  std::vector<TensorPlan> tensors;
  for (const model::GgufVector& tensor : rope_tensors_) {
    tensors.push_back({tensor.name, DType::kF32, {static_cast<std::int64_t>(tensor.values.size())}});
  }
  for (const ModulePlan& module : model) {
    if (!begins_tensor(architecture, module.id)) continue;
    std::vector<TensorPlan> own = tensors_of(module);
    const model::FusedTensor* fused = fused_tensor(architecture, module.id.role);
    if (fused != nullptr) own.front().name = model::fill_in(fused->gguf, module.id.layer, 0) + ".weight";
    if (fused != nullptr || is_routed_expert(module.id.role)) {
      std::int64_t parts = 0;
      std::int64_t rows = 0;
      for (const ModulePlan& other : model) {
        if (!lie_together(architecture, module.id, other.id)) continue;
        ++parts;
        rows += static_cast<std::int64_t>(other.rows);
      }
      Shape& shape = own.front().shape;
      if (fused != nullptr) {
        shape.front() = rows;
      } else {
        shape.insert(shape.begin(), parts);
      }
    }
    std::ranges::move(own, std::back_inserter(tensors));
  }
  return tensors;
}

std::uint64_t GgufFormat::bytes(const ModulePlan& module) const {
  std::uint64_t bytes = 0;
  for (const TensorPlan& tensor : tensors_of(module)) bytes += files::planned_bytes(tensor);
  return bytes;
}

std::uint64_t GgufFormat::file_bytes(std::span<const ModulePlan> model) const {
  return files::planned_gguf_bytes(fields_, tensors_of(model));
}

std::unique_ptr<ModelWriter> GgufFormat::open(const std::filesystem::path& directory,
                                              std::span<const ModulePlan> model) const {
  check_together(model);
  std::vector<files::GgufField> fields = fields_;
  fields.back().value = formats::gguf_file_type(most_common_dtype(model));
  return std::make_unique<GgufModelWriter>(source_, directory / file_name(), fields, tensors_of(model), rope_tensors_);
}

}  // namespace ballast::quant
