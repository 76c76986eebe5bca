#include "quant/write/gguf_format.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>
#include <variant>

#include "ballast/error.h"
#include "jobs/written_by.h"
#include "model/arch/gguf_fields.h"
#include "model/block_structure.h"
#include "model/source/stored_matrix.h"
#include "quant/write/float_type.h"
#include "text/gguf_fields.h"

namespace ballast::quant {

namespace {

using files::TensorPlan;

constexpr const char* kRopeFactors = "rope_freqs.weight";
constexpr std::size_t kLargestBlock = 256;

bool has_whole_blocks(const ModelSpec& spec) {
  const AttentionSpec* attention = spec.first_attention();
  const std::size_t heads = attention == nullptr ? 0 : attention->heads * attention->value_size;
  const auto whole = [](std::size_t cols) { return cols % kLargestBlock == 0; };
  return whole(spec.hidden_size) && whole(heads) && std::ranges::all_of(spec.layers, [&](const LayerSpec& layer) {
           const auto& experts = layer.mlp.experts;
           return whole(layer.mlp.size) && (!experts || (whole(experts->size) && whole(experts->shared_size)));
         });
}

DType matrix_dtype(const WeightFormat& format) {
  return format.kind == WeightFormat::Kind::kBlocks ? format.block_type : float_dtype(format.kind);
}

/// The number by which llama.cpp says what most weights of a file are stored as.
std::uint32_t file_type(DType dtype) {
  struct FileType {
    DType dtype;
    std::uint32_t number;
  };
  // Of K types those of one type for all, "small" where there are several.
  constexpr std::array kTypes = {FileType{DType::kF16, 1},   FileType{DType::kQ4_0, 2},    FileType{DType::kQ4_1, 3},
                                 FileType{DType::kQ8_0, 7},  FileType{DType::kQ5_0, 8},    FileType{DType::kQ5_1, 9},
                                 FileType{DType::kQ2_K, 10}, FileType{DType::kQ3_K, 11},   FileType{DType::kQ4_K, 14},
                                 FileType{DType::kQ5_K, 16}, FileType{DType::kQ6_K, 18},   FileType{DType::kIQ4_NL, 25},
                                 FileType{DType::kBF16, 32}, FileType{DType::kIQ4_XS, 30}, FileType{DType::kF32, 0}};
  return std::ranges::find(kTypes, dtype, &FileType::dtype)->number;
}

/// The type of most weights in matrices.
DType most_common_dtype(std::span<const ModulePlan> model) {
  std::map<DType, std::size_t> weights;
  for (const ModulePlan& module : model) {
    if (model::is_norm(module.id.role) || model::is_vector(module.id.role)) continue;
    weights[matrix_dtype(module.format)] += module.weights();
  }
  return std::ranges::max_element(weights, {}, [](const auto& entry) { return entry.second; })->first;
}

/// Experts of one role in a layer lie in one tensor, in their order.
bool are_stacked(const ModuleId& a, const ModuleId& b) {
  return is_routed_expert(a.role) && a.role == b.role && a.layer == b.layer;
}

[[noreturn]] void refuse_prefix() {
  throw Error("prefix", "a GGUF cannot hold tokens that stand in front of every sequence");
}

/// Rows of `row_bytes` bytes each, row r moved to order[r].
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
                  std::span<const float> rope_factors)
      : source_(std::move(source)), file_(file, fields, std::move(plan)) {
    if (!rope_factors.empty()) file_.write(DType::kF32, encode_floats(rope_factors, DType::kF32));
  }

  void write(std::span<const ConvertedModule> block) override {
    for (const ConvertedModule& module : block) {
      const ModulePlan& plan = module.plan;
      if (is_routed_expert(plan.id.role)) {
        if (plan.id.expert == 0) write_experts(block, plan);
      } else if (model::is_norm(plan.id.role) || model::is_vector(plan.id.role)) {
        file_.write(DType::kF32, encode_floats(module.values, DType::kF32));
      } else {
        file_.write(matrix_dtype(plan.format), stored_rows(module));
      }
      if (!module.bias.empty()) write_bias(module);
    }
  }

  std::uint64_t finish(const ModelMetadata& /*metadata*/) override { return file_.finish(); }

 private:
  /// All of a block that lie in one tensor with the first of them.
  void write_experts(std::span<const ConvertedModule> block, const ModulePlan& first) {
    std::vector<std::byte> rows;
    std::size_t expert = 0;
    for (const ConvertedModule& module : block) {
      if (!are_stacked(module.plan.id, first.id)) continue;
      if (module.plan.id.expert != expert++) throw Error(module.plan.name, "is not in the order of its experts");
      const std::vector<std::byte> more = stored_rows(module);
      rows.insert(rows.end(), more.begin(), more.end());
    }
    file_.write(matrix_dtype(first.format), rows);
  }

  std::vector<std::byte> stored_rows(const ConvertedModule& module) const {
    const ModulePlan& plan = module.plan;
    const std::vector<std::size_t> order = row_order(plan);
    std::vector<std::byte> rows;
    if (module.quantized) {
      const std::span<const std::byte> blocks(std::get<model::BlockTensor>(*module.quantized).blocks);
      rows.assign(blocks.begin(), blocks.end());
    } else {
      rows = encode_floats(module.values, matrix_dtype(plan.format));
    }
    return order.empty() ? rows : in_order(rows, rows.size() / plan.rows, order);
  }

  void write_bias(const ConvertedModule& module) {
    const std::vector<std::byte> bias = encode_floats(module.bias, DType::kF32);
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

GgufFormat::GgufFormat(const std::filesystem::path& model)
    : source_(std::make_shared<const model::ModelSource>(model)), whole_blocks_(has_whole_blocks(source_->spec())) {
  const model::Architecture& architecture = source_->architecture();
  if (architecture.gguf_fields == nullptr) {
    throw Error(model.string(), "is a model of the family " + source_->spec().architecture +
                                    ", of which no GGUF can be written yet; supported: " + model::gguf_families());
  }
  if (!source_->prefix_tokens().empty()) refuse_prefix();
  fields_ = {{"general.architecture", std::string(architecture.gguf_architecture)},
             {"general.type", "model"},
             {"general.name", std::filesystem::absolute(model).lexically_normal().stem().string()},
             {"general.quantized_by", jobs::written_by()},
             {"general.quantization_version", std::uint32_t{2}}};
  std::ranges::move(architecture.gguf_fields(source_->spec()), std::back_inserter(fields_));
  std::ranges::move(text::gguf_tokenizer_fields(source_->checkpoint(), source_->spec().vocab_size),
                    std::back_inserter(fields_));
  fields_.push_back({"general.file_type", std::uint32_t{0}});  // known with the modules
  rope_factors_ = model::gguf_rope_factors(source_->spec());
}

WeightFormat GgufFormat::fitting(const WeightFormat& format) const {
  if (format.kind != WeightFormat::Kind::kInteger) return format;
  switch (format.bits) {
    case 4:
      return block_format(whole_blocks_ ? DType::kQ4_K : DType::kIQ4_NL);
    case 5:
      return block_format(whole_blocks_ ? DType::kQ5_K : DType::kQ5_0);
    case 6:
      return block_format(whole_blocks_ ? DType::kQ6_K : DType::kQ8_0);
    default:
      return block_format(DType::kQ8_0);
  }
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
  for (FormatException& exception : fitting.exceptions) exception.format = this->fitting(exception.format);
  if (!fitting.linears.quantizes()) return fitting;
  fitting.activations = Recipe::Activations::kInt8;
  fitting.activation_groups = true;
  fitting.int16_activations_at_end = false;
  fitting.int16_activations_where_amplified = false;
  fitting.int16_activation_fraction = 0;
  return fitting;
}

std::vector<WeightFormat> GgufFormat::candidates() const {
  std::vector<WeightFormat> formats;
  for (const DType type : writable_block_types()) formats.push_back(block_format(type));
  return formats;
}

bool GgufFormat::holds(const ModulePlan& module) const {
  const WeightFormat& format = module.format;
  if (module.outlier_columns > 0) return false;
  if (!module.is_quantized()) return true;
  return format.kind == WeightFormat::Kind::kBlocks && module.cols % dtype_info(format.block_type).block_elements == 0;
}

void GgufFormat::check_together(std::span<const ModulePlan> model) const {
  std::map<std::pair<std::size_t, model::Role>, WeightFormat> formats;
  for (const ModulePlan& module : model) {
    if (!is_routed_expert(module.id.role)) continue;
    const auto [first, is_first] = formats.emplace(std::pair(module.id.layer, module.id.role), module.format);
    if (!is_first && first->second != module.format) {
      throw Error(module.name, "lies in one tensor with the layer's other experts, and must have their format, " +
                                   format_name(first->second));
    }
  }
}

std::optional<WeightFormat> GgufFormat::exact_format(const ModulePlan& module, bool /*int8_activations*/) const {
  const WeightFormat& format = module.format;
  if (!format.quantizes()) return format;
  constexpr std::size_t kGroup = 32;
  if (format.kind == WeightFormat::Kind::kNonlinear || !format.symmetric || format.group_size % kGroup != 0) return {};
  switch (format.bits) {
    case 4:
      return block_format(DType::kQ4_0);
    case 5:
      return block_format(DType::kQ5_0);
    case 8:
      return block_format(DType::kQ8_0);
    default:
      return {};
  }
}

std::string GgufFormat::describe(const ModulePlan& module) const {
  if (model::is_norm(module.id.role) || model::is_vector(module.id.role)) return "F32";
  return std::string(dtype_info(matrix_dtype(module.format)).name);
}

std::vector<TensorPlan> GgufFormat::tensors_of(const ModulePlan& module) const {
  const model::Role role = module.id.role;
  const std::string name =
      model::stored_names(source_->architecture(), role, true, module.id.layer, module.id.expert).front();
  const auto rows = static_cast<std::int64_t>(module.rows);
  const auto cols = static_cast<std::int64_t>(module.cols);
  if (model::is_vector(role)) return {{name, DType::kF32, {cols}}};
  const bool norm = model::is_norm(role);
  std::vector<TensorPlan> tensors = {norm ? TensorPlan{name + ".weight", DType::kF32, {cols}}
                                          : TensorPlan{name + ".weight", matrix_dtype(module.format), {rows, cols}}};
  if (module.bias) tensors.push_back({name + ".bias", DType::kF32, {norm ? cols : rows}});
  return tensors;
}

std::vector<TensorPlan> GgufFormat::tensors_of(std::span<const ModulePlan> model) const {
  std::vector<TensorPlan> tensors;
  if (!rope_factors_.empty()) {
    tensors.push_back({kRopeFactors, DType::kF32, {static_cast<std::int64_t>(rope_factors_.size())}});
  }
  for (const ModulePlan& module : model) {
    const auto is_beside = [&](const ModulePlan& other) { return are_stacked(other.id, module.id); };
    std::vector<TensorPlan> own = tensors_of(module);
    if (is_routed_expert(module.id.role)) {
      if (module.id.expert != 0) continue;
      own.front().shape.insert(own.front().shape.begin(), std::ranges::count_if(model, is_beside));
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
  std::vector<files::GgufField> fields = fields_;
  fields.back().value = file_type(most_common_dtype(model));
  return std::make_unique<GgufModelWriter>(source_, directory / file_name(), fields, tensors_of(model), rope_factors_);
}

}  // namespace ballast::quant
