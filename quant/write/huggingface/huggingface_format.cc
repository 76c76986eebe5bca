#include "quant/write/huggingface/huggingface_format.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "ballast/error.h"
#include "formats/float_type.h"
#include "model/source/matrix_location.h"
#include "model/source/model_source.h"
#include "model/structure/block_structure.h"
#include "quant/write/metadata_files.h"

namespace ballast::quant {

namespace {

using files::TensorPlan;

/// Returns the type of floats: that of the original's embedding, or of its scales.
DType float_type_of(const model::ModelSource& source, const std::string& embedding) {
  if (const auto rounded = source.quantized_ranges(model::Role::kEmbedding); !rounded.empty()) {
    return rounded.front()->view().scale_type;
  }
  const DType type = source.checkpoint().tensor(embedding).dtype;
  if (type == DType::kF16 || type == DType::kBF16 || type == DType::kF32) return type;
  throw Error(source.checkpoint().path().string(), "its embedding is no float: convert from the original");
}

/// Checks that the family's own class and names of tensors describe the model: programs that read these files know no
/// more.
void check_family(const model::ModelSource& source, const std::string& embedding, const std::string& layout) {
  const model::Architecture& architecture = source.architecture();
  const bool plain =
      architecture.fused.empty() && !architecture.transposed_linears && architecture.stored_factors == nullptr &&
      architecture.stored_vectors == nullptr && !architecture.huggingface_interleaves_rope && source.spec().norm.gain &&
      source.spec().norm.gain_offset == 0 && source.spec().causal && source.spec().has_head && !source.spec().encoder;
  const bool latent = std::ranges::any_of(source.spec().layers, [](const auto& layer) { return layer.latent(); });
  // The files would have a tensor for each head, and ballast has one for all.
  const bool head_norms = std::ranges::any_of(source.spec().layers, [](const LayerSpec& layer) {
    const AttentionSpec* attention = layer.attention();
    return attention != nullptr && attention->query_key_norm &&
           attention->query_key_norm->kind == HeadNormSpec::Kind::kLayer;
  });
  const std::string context = source.checkpoint().path().string();
  if (!plain || latent || head_norms || source.spec().has_experts()) {
    throw Error(context, "is a model of the family " + source.spec().architecture + ", of which no " + layout +
                             " checkpoint can be written yet: its class has matrices that are fused, transposed or of "
                             "experts, interleaves what rotates, has an encoder, or norms of another kind");
  }
  if (source.checkpoint().kind() == files::Checkpoint::Kind::kGguf || !source.checkpoint().contains(embedding)) {
    throw Error(context, "has other names of tensors than its family's class: convert from the Hugging Face directory");
  }
  if (!source.prefix_tokens().empty()) throw Error(context, "has a prefix, which " + layout + " cannot hold");
}

/// Repeats rope_theta, which transformers writes into rope_parameters since version 5, as a field of its own for
/// programs that read only that field: mlx-lm would otherwise rotate Llamas by its default of 10,000.
void write_legacy_rope_fields(nlohmann::json& config) {
  const auto parameters = config.find("rope_parameters");
  if (parameters == config.end() || !parameters->is_object() || !parameters->contains("rope_theta")) return;
  config["rope_theta"] = parameters->at("rope_theta");
  if (parameters->value("rope_type", "default") == "default") return;
  config["rope_scaling"] = std::move(*parameters);
  config.erase("rope_parameters");
}

formats::PlannedMatrix planned_matrix(const ModulePlan& module) {
  return {.name = module.name,
          .rows = module.rows,
          .cols = module.cols,
          .format = module.format,
          .is_head = module.id.role == model::Role::kHead};
}

formats::PlannedModel planned_model(std::span<const ModulePlan> model) {
  formats::PlannedModel planned;
  bool has_head = false;
  for (const ModulePlan& module : model) {
    const model::Role role = module.id.role;
    has_head = has_head || role == model::Role::kHead;
    if (module.is_quantized()) {
      planned.quantized.push_back(planned_matrix(module));
    } else if (!model::is_norm(role) && !model::is_vector(role) && !is_embedding(role)) {
      planned.plain_linears.push_back(module.name);
    }
  }
  if (!has_head) planned.plain_linears.emplace_back("lm_head");  // the embedding, under its second name
  return planned;
}

class HuggingfaceWriter : public ModelWriter {
 public:
  HuggingfaceWriter(const std::filesystem::path& directory, std::span<const ModulePlan> model,
                    std::vector<TensorPlan> tensors, const formats::CodecWriter& codec, DType float_type)
      : directory_(directory),
        model_(model.begin(), model.end()),
        codec_(codec),
        float_type_(float_type),
        tensors_(directory, std::move(tensors), {}) {}

  void write(std::span<const ConvertedModule> block) override {
    for (const ConvertedModule& module : block) write(module);
  }

  std::uint64_t finish(const ModelMetadata& metadata) override {
    tensors_.finish();
    nlohmann::json config = unquantized_config(metadata);
    write_legacy_rope_fields(config);
    config["tie_word_embeddings"] = metadata.spec.tied_embeddings;
    for (const std::string& key : codec_.configuration_keys())
      config[key] = codec_.configuration(planned_model(model_), metadata.recipe.activations);
    write_model_files(metadata, config, directory_);
    return tensors_.file_bytes();
  }

 private:
  void write(const ConvertedModule& module) {
    const std::string& name = module.plan.name;
    const model::Role role = module.plan.id.role;
    if (module.quantized) {
      const formats::PlannedMatrix matrix = planned_matrix(module.plan);
      for (const formats::EncodedTensor& tensor : codec_.encode(matrix, *module.quantized, float_type_)) {
        tensors_.write(tensor.plan.name, tensor.plan.dtype, tensor.bytes);
      }
    } else {
      write(model::is_vector(role) ? name : model::tensor_name(name, "weight"), module.values);
    }
    if (!module.bias.empty()) write(model::tensor_name(name, "bias"), module.bias);
  }

  void write(const std::string& tensor, std::span<const float> values) {
    tensors_.write(tensor, float_type_, formats::encode_floats(values, float_type_));
  }

  std::filesystem::path directory_;
  std::vector<ModulePlan> model_;
  const formats::CodecWriter& codec_;
  DType float_type_;
  files::SafetensorsWriter tensors_;
};

}  // namespace

HuggingfaceFormat::HuggingfaceFormat(const model::ModelSource& source, const formats::CodecWriter& codec)
    : codec_(codec) {
  const std::string embedding =
      model::stored_names(source.architecture(), model::Role::kEmbedding, false, 0, 0).front() + ".weight";
  check_family(source, embedding, codec_.name());
  float_type_ = float_type_of(source, embedding);
}

WeightFormat HuggingfaceFormat::fitting(const WeightFormat& format, ActivationType activations) const {
  if (!format.quantizes()) return {.kind = formats::float_kind(float_type_)};
  const auto has_these_bits = [&](const WeightFormat& candidate) { return candidate.bits == format.bits; };
  const bool replaced = format.is_format_of_bits() && std::ranges::any_of(codec_.candidates(), has_these_bits);
  if (format.codebook != CodebookId::kUniform && !replaced) {
    throw Error(codec_.name(), "cannot hold " + format_name(format) + ", whose codes are indices into a codebook");
  }
  return codec_.fitting(format, activations);
}

Recipe HuggingfaceFormat::fitting(const Recipe& recipe) const {
  if (!recipe.prefix.none()) {
    throw Error("prefix", codec_.name() + " cannot hold tokens that stand in front of every sequence");
  }
  const bool int8 = recipe.activations == ActivationType::kInt8;
  const bool sized = recipe.target_bytes != 0 && recipe.target_bytes != Recipe::kNaturalSize;
  Recipe fitting = recipe;
  fitting.fold_biases = false;
  fitting.center_norms = false;
  fitting.outlier_fraction = 0;
  fitting.float_type = float_type_;
  fitting.linears = this->fitting(recipe.linears, recipe.activations);
  const WeightFormat floats = {.kind = formats::float_kind(float_type_)};
  fitting.embedding = codec_.quantizes_embedding() ? this->fitting(recipe.embedding, recipe.activations) : floats;
  fitting.head = int8 || !codec_.quantizes_head() ? floats : this->fitting(recipe.head, recipe.activations);
  for (FormatOverride& entry : fitting.overrides) {
    entry.format = entry.format.quantizes() ? codec_.named(entry.format, recipe.activations) : floats;
  }
  fitting.activation_groups = false;
  fitting.int16_activations_at_end = false;
  fitting.int16_activations_where_amplified = false;
  fitting.int16_activation_fraction = 0;
  if (!codec_.candidates().empty() && !int8) return fitting;
  if (sized) throw Error(codec_.name(), "has one format for all matrices: it takes no target size");
  fitting.target_bytes = 0;
  return fitting;
}

bool HuggingfaceFormat::holds(const ModulePlan& module) const {
  if (module.outlier_columns > 0) return false;
  if (!module.is_quantized()) return true;
  return (codec_.quantizes_embedding() || !is_embedding(module.id.role)) && codec_.holds(planned_matrix(module));
}

std::optional<WeightFormat> HuggingfaceFormat::exact_format(const ModulePlan& module,
                                                            ActivationType activations) const {
  if (module.format.codebook != CodebookId::kUniform) return {};
  const WeightFormat fitting = this->fitting(module.format, activations);
  const bool zero_points = fitting.is_integer() && !fitting.symmetric;
  if (module.is_quantized() && !module.format.symmetric && !zero_points) return {};
  return fitting;
}

void HuggingfaceFormat::check_together(std::span<const ModulePlan> model) const {
  codec_.check_together(planned_model(model));
}

std::string HuggingfaceFormat::describe(const ModulePlan& module) const {
  return module.is_quantized() ? format_name(module.format) : std::string(dtype_info(float_type_).name);
}

std::vector<TensorPlan> HuggingfaceFormat::tensors_of(const ModulePlan& module) const {
  const model::Role role = module.id.role;
  const auto rows = static_cast<std::int64_t>(module.rows);
  const auto cols = static_cast<std::int64_t>(module.cols);
  if (model::is_vector(role)) return {{module.name, float_type_, {cols}}};
  const bool norm = model::is_norm(role);
  std::vector<TensorPlan> tensors;
  if (module.is_quantized()) {
    tensors = codec_.tensors(planned_matrix(module), float_type_);
  } else {
    tensors.push_back({model::tensor_name(module.name, "weight"), float_type_, norm ? Shape{cols} : Shape{rows, cols}});
  }
  if (module.bias) tensors.push_back({model::tensor_name(module.name, "bias"), float_type_, {norm ? cols : rows}});
  return tensors;
}

std::vector<TensorPlan> HuggingfaceFormat::tensors_of(std::span<const ModulePlan> model) const {
  std::vector<TensorPlan> tensors;
  for (const ModulePlan& module : model) std::ranges::move(tensors_of(module), std::back_inserter(tensors));
  return tensors;
}

std::uint64_t HuggingfaceFormat::bytes(const ModulePlan& module) const {
  std::uint64_t bytes = 0;
  for (const TensorPlan& tensor : tensors_of(module)) bytes += files::planned_bytes(tensor);
  return bytes;
}

std::uint64_t HuggingfaceFormat::file_bytes(std::span<const ModulePlan> model) const {
  return files::planned_file_bytes(tensors_of(model));
}

std::unique_ptr<ModelWriter> HuggingfaceFormat::open(const std::filesystem::path& directory,
                                                     std::span<const ModulePlan> model) const {
  return std::make_unique<HuggingfaceWriter>(directory, model, tensors_of(model), codec_, float_type_);
}

}  // namespace ballast::quant
