#include "model/model_source.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "ballast/error.h"
#include "kernels/statistics.h"
#include "model/quantized_tensor.h"

namespace ballast::model {

namespace {

constexpr std::array kLinears = {Role::kQuery, Role::kKey, Role::kValue, Role::kAttentionOutput,
                                 Role::kGate,  Role::kUp,  Role::kDown};
constexpr std::array kNorms = {Role::kAttentionNorm, Role::kMlpNorm};

QuantizationConfig read_quantization(const nlohmann::json& json, const std::string& place) {
  const ConfigReader reader(json, place + ": quantization_config");
  const std::string method = reader.text("quant_method", "");
  if (method != "ballast") reader.fail("quant_method", "'" + method + "' is not supported: start from the original");
  if (reader.size("version") != kQuantizationVersion) {
    reader.fail("version", "is " + std::to_string(reader.size("version")) + ", this program reads version " +
                               std::to_string(kQuantizationVersion));
  }
  QuantizationConfig config;
  const std::string activations = reader.text("activations", "float");
  if (activations != "float" && activations != "int8") reader.fail("activations", "must be 'float' or 'int8'");
  config.int8_activations = activations == "int8";
  config.activation_groups = reader.flag("activation_groups", false);
  const ConfigReader tensors = reader.object("tensors");
  for (const auto& [name, format] : tensors.json().items()) {
    config.tensors[name] = parse_format(tensors.text(name, ""));
  }
  return config;
}

void check_spec(const ModelSpec& spec, const ConfigReader& config) {
  if (spec.heads % spec.kv_heads != 0) config.fail("num_key_value_heads", "must divide num_attention_heads");
  if (spec.head_size % 2 != 0) config.fail("head_dim", "must be even for rotary positions");
}

std::vector<int> stop_tokens(const nlohmann::json& config) {
  std::vector<int> ids;
  const auto it = config.find("eos_token_id");
  if (it == config.end()) return ids;
  if (it->is_number_integer()) ids.push_back(it->get<int>());
  if (it->is_array()) {
    for (const auto& id : *it) {
      if (id.is_number_integer()) ids.push_back(id.get<int>());
    }
  }
  return ids;
}

}  // namespace

std::span<const Role> block_linears() {
  return kLinears;
}
std::span<const Role> block_norms() {
  return kNorms;
}

ModelSource::ModelSource(const std::filesystem::path& path) : checkpoint_(open_checkpoint(path)) {
  const std::string file = checkpoint_->path().string();
  if (checkpoint_->kind() == Checkpoint::Kind::kGguf) {
    const auto& gguf = dynamic_cast<const GgufFile&>(*checkpoint_);
    const ConfigReader metadata(gguf.config(), file);
    architecture_ = &architecture_for_gguf(metadata.text("general.architecture", ""), file);
    config_ = architecture_->config_from_gguf(gguf);
  } else {
    config_ = checkpoint_->config();
  }
  const ConfigReader config(config_, file + "/config.json");
  if (architecture_ == nullptr) {
    architecture_ = &architecture_for_model_type(config.text("model_type", ""), file + "/config.json");
  }
  spec_ = architecture_->describe(config);
  spec_.architecture = architecture_->model_type;
  spec_.stop_tokens = stop_tokens(config_);
  check_spec(spec_, config);
  if (config.has("quantization_config")) {
    quantization_ = read_quantization(config_.at("quantization_config"), file + "/config.json");
  }
  if (!spec_.tied_embeddings && !checkpoint_->contains(stored_name(Role::kHead))) {
    // Some checkpoints leave the flag at its default and the head out.
    spec_.tied_embeddings = !config.has("tie_word_embeddings");
  }
  check_extent();
}

// Numbers of layers and sizes of heads decide how much memory is taken before all tensors have been looked at.
void ModelSource::check_extent() const {
  const auto rows = static_cast<std::int64_t>(matrix_shape(Role::kQuery).first);
  for (const std::size_t layer : {std::size_t{0}, spec_.layers - 1}) {
    const std::string name = stored_name(Role::kQuery, layer);
    const Shape shape = checkpoint_->tensor(name).shape;
    if (shape.empty() || shape.front() != rows) {
      throw Error(place(name),
                  "has shape " + shape_string(shape) + ", config.json gives " + std::to_string(rows) + " rows");
    }
  }
}

std::string ModelSource::name(Role role, std::size_t layer) const {
  return module_name(*architecture_, role, layer);
}

std::string ModelSource::stored_name(Role role, std::size_t layer) const {
  const bool gguf = checkpoint_->kind() == Checkpoint::Kind::kGguf;
  return (gguf ? gguf_module_name(*architecture_, role, layer) : name(role, layer)) + ".weight";
}

std::string ModelSource::place(const std::string& tensor) const {
  return checkpoint_->path().string() + ": " + tensor;
}

bool ModelSource::has_bias(Role role) const {
  switch (role) {
    case Role::kQuery:
    case Role::kKey:
    case Role::kValue:
    case Role::kAttentionOutput:
      return spec_.attention_bias;
    case Role::kGate:
    case Role::kUp:
    case Role::kDown:
      return spec_.mlp_bias;
    default:
      return false;
  }
}

std::pair<std::size_t, std::size_t> ModelSource::matrix_shape(Role role) const {
  const std::size_t hidden = spec_.hidden_size;
  const std::size_t queries = spec_.heads * spec_.head_size;
  const std::size_t keys = spec_.kv_heads * spec_.head_size;
  switch (role) {
    case Role::kEmbedding:
    case Role::kHead:
      return {spec_.vocab_size, hidden};
    case Role::kQuery:
      return {queries, hidden};
    case Role::kKey:
    case Role::kValue:
      return {keys, hidden};
    case Role::kAttentionOutput:
      return {hidden, queries};
    case Role::kGate:
    case Role::kUp:
      return {spec_.mlp_size, hidden};
    case Role::kDown:
      return {hidden, spec_.mlp_size};
    default:
      return {1, hidden};  // a norm's gain
  }
}

TensorView ModelSource::checked_tensor(const std::string& name, const Shape& shape) const {
  TensorView view = checkpoint_->tensor(name);
  if (view.shape != shape) {
    throw Error(place(name), "has shape " + shape_string(view.shape) + ", config.json gives " + shape_string(shape));
  }
  return view;
}

std::vector<float> ModelSource::floats(const std::string& name, const Shape& shape) const {
  const TensorView view = checked_tensor(name, shape);
  std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
  decode_floats(view, place(name), values.data());
  return values;
}

std::vector<float> ModelSource::vector(Role role, std::size_t layer) const {
  return floats(stored_name(role, layer), {static_cast<std::int64_t>(matrix_shape(role).second)});
}

bool ModelSource::interleaved(Role role) const {
  return checkpoint_->kind() == Checkpoint::Kind::kGguf && architecture_->gguf_interleaves_rope &&
         (role == Role::kQuery || role == Role::kKey);
}

// GGUF keeps a RoPE pair's rows side by side: row 2i + j of a head is Hugging Face's row j * head_size/2 + i.
void ModelSource::undo_rope_interleaving(Role role, FloatWeights& weights) const {
  if (!interleaved(role)) return;
  const std::vector<float> stored = weights.values;
  const std::size_t half = spec_.head_size / 2;
  for (std::size_t row = 0; row < weights.rows; ++row) {
    const std::size_t head = row / spec_.head_size;
    const std::size_t in_head = row % spec_.head_size;
    const std::size_t from = head * spec_.head_size + 2 * (in_head % half) + in_head / half;
    std::copy_n(stored.data() + from * weights.cols, weights.cols, weights.values.data() + row * weights.cols);
  }
}

std::vector<float> ModelSource::bias(Role role, std::size_t layer) const {
  if (!has_bias(role)) return {};
  std::string tensor = stored_name(role, layer);
  tensor.replace(tensor.size() - std::strlen("weight"), std::string::npos, "bias");
  FloatWeights column{matrix_shape(role).first, 1, {}};
  column.values = floats(tensor, {static_cast<std::int64_t>(column.rows)});
  undo_rope_interleaving(role, column);
  return column.values;
}

FloatWeights ModelSource::float_weights(Role role, std::size_t layer) const {
  const auto [rows, cols] = matrix_shape(role);
  FloatWeights weights{rows, cols, {}};
  weights.values = floats(stored_name(role, layer), {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols)});
  undo_rope_interleaving(role, weights);
  return weights;
}

Linear ModelSource::linear(Role role, std::size_t layer) const {
  Linear linear;
  linear.name = name(role, layer);
  linear.bias = bias(role, layer);
  const auto [rows, cols] = matrix_shape(role);
  if (quantization_) {
    const auto format = quantization_->tensors.find(linear.name);
    if (format != quantization_->tensors.end() && format->second.kind == WeightFormat::Kind::kInteger) {
      kernels::QuantizedMatrix matrix = load_quantized_matrix(*checkpoint_, linear.name, format->second, rows, cols);
      if (quantization_->int8_activations) {
        const auto outliers = matrix.outlier_columns();
        linear.activations = kernels::ActivationFormat{.cols = cols,
                                                       .group_size = matrix.group_size(),
                                                       .scale_per_group = quantization_->activation_groups,
                                                       .outlier_columns = {outliers.begin(), outliers.end()}};
      }
      linear.weights = std::move(matrix);
      return linear;
    }
  }
  const std::string tensor = stored_name(role, layer);
  const TensorView view = checked_tensor(tensor, {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols)});
  FloatMatrixHolder holder;
  holder.matrix = {.data = view.bytes.data(), .type = kernels::FloatType::kF32, .rows = rows, .cols = cols};
  const bool plain = view.dtype == DType::kF32 || view.dtype == DType::kF16 || view.dtype == DType::kBF16;
  if (plain && !interleaved(role)) {
    holder.matrix.type = view.dtype == DType::kF16    ? kernels::FloatType::kF16
                         : view.dtype == DType::kBF16 ? kernels::FloatType::kBF16
                                                      : kernels::FloatType::kF32;
    check_finite(view, place(tensor));
  } else {
    holder.owned = float_weights(role, layer).values;
    holder.matrix.data = holder.owned.data();
  }
  linear.weights = std::move(holder);
  return linear;
}

BlockWeights ModelSource::block(std::size_t layer) const {
  return {.attention_norm = vector(Role::kAttentionNorm, layer),
          .query = linear(Role::kQuery, layer),
          .key = linear(Role::kKey, layer),
          .value = linear(Role::kValue, layer),
          .attention_output = linear(Role::kAttentionOutput, layer),
          .mlp_norm = vector(Role::kMlpNorm, layer),
          .gate = linear(Role::kGate, layer),
          .up = linear(Role::kUp, layer),
          .down = linear(Role::kDown, layer)};
}

void ModelSource::release_block(std::size_t layer) const {
  for (const Role role : kLinears) {
    const std::string tensor = stored_name(role, layer);
    if (checkpoint_->contains(tensor)) checkpoint_->release(tensor);
  }
}

}  // namespace ballast::model
