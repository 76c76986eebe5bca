#include "model/source/tensor_locator.h"

#include <algorithm>
#include <exception>
#include <ranges>
#include <utility>

#include "ballast/error.h"
#include "files/mapped_file.h"
#include "formats/codecs/ballast.h"
#include "formats/codecs/mxfp4.h"
#include "model/arch/decoder_config.h"
#include "model/arch/gguf_config.h"
#include "model/arch/gguf_storage.h"
#include "model/source/generation_config.h"
#include "model/source/prefix.h"
#include "model/source/sentence_modules.h"
#include "model/source/written_spec.h"
#include "model/structure/block_structure.h"
#include "text/readers/gguf_end_tokens.h"
#include "text/subword/vocabulary.h"

namespace ballast::model {

namespace {

Shape without_ones(Shape shape) {
  std::erase(shape, 1);
  return shape;
}

bool quantized_by_ballast(const files::JsonReader& config) {
  const nlohmann::json::json_pointer method("/quantization_config/quant_method");
  return config.json().value(method, nlohmann::json()) == "ballast";
}

/// Returns whether a checkpoint was saved from the class of transformers without a head, such as "Qwen3Model".
bool is_bare_model(const files::JsonReader& config) {
  if (!config.has("architectures")) return false;
  const std::vector<std::string> names = config.at("architectures").strings();
  return !names.empty() && std::ranges::all_of(names, [](const std::string& name) {
    return name.ends_with("Model") && !name.ends_with("LMHeadModel");
  });
}

}  // namespace

TensorLocator::TensorLocator(const std::filesystem::path& path)
    : adapter_(read_adapter(path)), checkpoint_(files::open_checkpoint(adapter_ ? adapter_->base() : path)) {
  const std::string file = checkpoint_->path().string();
  layout_.gguf = checkpoint_->kind() == files::Checkpoint::Kind::kGguf;
  std::optional<TextVectorSpec> gguf_vectors;
  if (layout_.gguf) {
    const auto& gguf = dynamic_cast<const files::GgufFile&>(*checkpoint_);
    const files::JsonReader metadata(gguf.config(), file);
    architecture_ = &architecture_for_gguf(metadata.text("general.architecture", ""), file);
    config_ = architecture_->config_from_gguf(gguf);
    const std::vector<int> ends = text::gguf_end_tokens(gguf);
    if (ends.size() > 1) config_["eos_token_id"] = ends;
    gguf_vectors = text_vectors_from_gguf(gguf, architecture_->gguf_architecture);
    // Several families may have the same name in a GGUF: the config.json made from it has the final one.
    architecture_ = &architecture_for_model_type(config_["model_type"].get<std::string>(), file);
  } else {
    config_ = checkpoint_->config();
  }
  const files::JsonReader config(config_, file + "/config.json");
  if (architecture_ == nullptr) {
    architecture_ = &architecture_for_model_type(config.text("model_type", ""), file + "/config.json");
  }
  layout_.architecture = architecture_;
  spec_ = architecture_->describe(config);
  spec_.architecture = architecture_->model_type;
  if (spec_.encoder) {
    layout_.encoder_layers = spec_.encoder->layers;
    read_start_token(config);
  } else if (spec_.causal && !spec_.classifier) {
    read_decoder_classifier(config, spec_);
  }
  if (!layout_.gguf) read_cross_encoder();
  if (layout_.gguf) set_gguf_norms(spec_);
  spec_.stop_tokens = read_end_tokens(config);
  spec_.text_vectors = layout_.gguf ? gguf_vectors : read_sentence_modules(checkpoint_->path(), spec_.hidden_size);
  if (config.has(kWrittenSpecField)) {
    layout_.written_by_ballast = true;
    read_written_spec(config.object(kWrittenSpecField), spec_);
    massive_tokens_ = read_massive_tokens(config.object(kWrittenSpecField));
    prefix_tokens_ = read_prefix_tokens(config.object(kWrittenSpecField));
    if (!prefix_tokens_.empty()) check_prefix(spec_, prefix_tokens_, file + "/config.json");
  }
  if (architecture_->stored_factors != nullptr) family_factors_ = architecture_->stored_factors(config);
  if (architecture_->stored_vectors != nullptr && !layout_.written_by_ballast && !layout_.gguf) {
    stored_vectors_ = architecture_->stored_vectors(spec_);
  }
  std::exception_ptr unread;  // the error in the description of the quantization
  try {
    read_quantization_config(config);
  } catch (const Error&) {
    if (quantized_by_ballast(config)) throw;
    // A checkpoint that was decoded to floats may still have the description of its quantization: the tensors decide.
    unread = std::current_exception();
  }
  if (unread && !all_is_plain()) std::rethrow_exception(unread);
  find_head(config);
  check_tensors();
  if (adapter_ == nullptr) return;
  if (layout_.written_by_ballast) {
    throw Error(adapter_->path().string(), "ballast wrote its model, '" + checkpoint_->path().string() +
                                               "': adapt the original and convert the result");
  }
  check_adapter(*adapter_);
}

/// Reads the token with which a decoder's text begins: that of generation_config.json counts before config.json's.
void TensorLocator::read_start_token(const files::JsonReader& config) {
  int& token = spec_.encoder->start_token;
  token = generation_start_token(checkpoint_->path()).value_or(token);
  if (static_cast<std::size_t>(token) < spec_.vocab_size) return;
  config.fail("decoder_start_token_id",
              std::to_string(token) + " is not in the vocabulary of " + std::to_string(spec_.vocab_size));
}

/// Reads what sentence-transformers adds to a model that scores texts.
void TensorLocator::read_cross_encoder() {
  if (!spec_.classifier) {
    spec_.classifier = read_token_classifier(checkpoint_->path(), spec_);
  } else if (!spec_.classifier->of_tokens) {
    spec_.classifier->function = read_cross_encoder_function(checkpoint_->path()).value_or(spec_.classifier->function);
  }
}

/// Returns the ids that end a text, from config.json and from generation_config.json beside it.
std::vector<int> TensorLocator::read_end_tokens(const files::JsonReader& config) const {
  std::vector<int> ends = text::read_token_ids(config, "eos_token_id");
  if (ends.empty() && config.has("text_config")) {
    ends = text::read_token_ids(config.object("text_config"), "eos_token_id");
  }
  if (layout_.gguf) return ends;
  for (const int id : generation_end_tokens(checkpoint_->path())) {
    if (std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
  }
  return ends;
}

void TensorLocator::read_quantization_config(const files::JsonReader& config) {
  if (layout_.gguf) return;
  if (!layout_.written_by_ballast) {
    const bool described = config.has("quantization_config") || config.has("quantization");
    codec_ = described ? formats::detect_codec(config) : formats::read_modelopt_config(checkpoint_->path());
  }
  layout_.codec = codec_.get();
  if (codec_ != nullptr || !config.has("quantization_config")) return;
  const files::JsonReader quantization = config.object("quantization_config");
  // MXFP4 needs no description: the tensors' names show it.
  if (quantization.text("quant_method", "") != "mxfp4") quantization_ = read_quantization(quantization);
}

/// Returns whether a matrix is stored as floats, without codes.
bool TensorLocator::is_plain(Role role, std::size_t layer, std::size_t expert) const {
  if (is_norm(role) || is_vector(role)) return true;
  const MatrixLocation matrix = stored(role, layer, expert);
  if (!checkpoint_->contains(matrix.weight())) return role == Role::kHead;  // the head may be the embedding
  if (checkpoint_->unread_tensors().contains(matrix.weight())) return false;
  const DType type = checkpoint_->tensor(matrix.weight()).dtype;
  return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16;
}

bool TensorLocator::all_is_plain() const {
  const auto plain_layer = [&](std::size_t layer) {
    return std::ranges::all_of(block_linears(spec_, layer),
                               [&](const Part& part) { return is_plain(part.role, layer, part.expert); });
  };
  const auto layers = std::views::iota(std::size_t{0}, spec_.layers.size());
  return std::ranges::all_of(outer_roles(spec_), [&](Role role) { return is_plain(role, 0, 0); }) &&
         std::ranges::all_of(layers, plain_layer);
}

/// Returns whether the checkpoint has a matrix, or the gain of a norm.
bool TensorLocator::is_stored(Role role, std::size_t layer) const {
  if (is_norm(role)) return checkpoint_->contains(find_vector(layout_, *checkpoint_, role, "weight", layer));
  const MatrixLocation matrix = stored(role, layer, 0);
  const bool quantized = quantization_ && quantization_->quantizes(name(role, layer, 0));
  return quantized || matrix.foreign || checkpoint_->contains(matrix.weight());
}

void TensorLocator::remove_head() {
  spec_.has_head = false;
  spec_.head_transform.reset();
  spec_.biases.head = spec_.biases.head_transform = false;
  spec_.tied_embeddings = true;
}

/// Handles a missing head: the head is then the embedding, or the model has none.
void TensorLocator::find_head(const files::JsonReader& config) {
  // Encoders that were trained further for vectors often name the class of the model with which that began.
  const bool bare = spec_.head_transform && !is_stored(Role::kHeadTransform, 0) && !is_stored(Role::kHeadNorm, 0);
  if (bare) return remove_head();
  if (spec_.encoder) return find_head_after_encoder(config);
  if (spec_.tied_embeddings || !spec_.has_head || layout_.gguf) return;
  if (is_stored(Role::kHead, 0)) return;
  // Some checkpoints leave the flag at its default and the head out. The bare model of a family has no head: it makes
  // vectors of texts.
  const files::JsonReader text = text_config(config);
  const bool said = config.has("tie_word_embeddings") || text.has("tie_word_embeddings");
  if (said || is_bare_model(config)) return remove_head();
  spec_.tied_embeddings = true;
}

/// Decoders with an encoder have always a head, which may be the embedding, and often leave out a bias of zeros. Some
/// checkpoints have their sines and cosines as tables.
void TensorLocator::find_head_after_encoder(const files::JsonReader& config) {
  if (spec_.sinusoids && is_stored(Role::kPositionEmbedding, 0) && is_stored(Role::kEncoderPositionEmbedding, 0)) {
    spec_.sinusoids.reset();
    spec_.learned_positions = true;
  }
  const bool own_head = !config.flag("tie_word_embeddings", true);
  if (!is_stored(Role::kHead, 0) && !own_head) spec_.tied_embeddings = true;
  if (!checkpoint_->contains(vector_tensor(Role::kHeadBias, 0))) spec_.biases.head = false;
}

// This checks names and shapes only: no values are read, and nothing takes memory yet.
void TensorLocator::check_tensors() const {
  for (const Role role : outer_roles(spec_)) check_role(role, 0);
  // The last block comes first: if the number of layers is wrong, this shows before all of them have been looked at.
  const std::size_t layers = spec_.layers.size();
  for (std::size_t i = 0; i < layers; ++i) {
    check_block((i + layers - 1) % layers);
  }
}

void TensorLocator::check_block(std::size_t layer) const {
  for (const Part& part : block_linears(spec_, layer)) check_role(part.role, layer, part.expert);
  for (const Role norm : block_norms(spec_, layer)) check_role(norm, layer);
  for (const Role vector : block_vectors(spec_, layer)) check_role(vector, layer);
}

/// Returns whether the checkpoint has one of the tensors that only a draft head has. Precondition: spec_.draft_head.
bool TensorLocator::has_draft_tensor() const {
  // A config.json may announce a head that the checkpoint does not have: the tensors decide.
  return std::ranges::any_of(
      kDraftRoles, [&](Role role) { return role != Role::kDraftModelNorm && is_stored(role, *layout_.draft_layer); });
}

std::optional<TensorLocator> TensorLocator::find_draft_head() const {
  const auto names_it = [](const TensorNames& names) { return names.role == Role::kDraftProjection; };
  if (std::ranges::none_of(architecture_->names, names_it) || !spec_.has_head) return {};
  // The head's block is built as the model's last one that attends.
  const auto attends = [](const LayerSpec& layer) { return layer.attention() != nullptr; };
  const auto last = std::ranges::find_if(spec_.layers | std::views::reverse, attends);
  if (last == spec_.layers.rend()) return {};
  TensorLocator head(*this);
  head.layout_.draft_layer = spec_.layers.size();
  head.spec_.layers.push_back(*last);
  head.spec_.draft_head = true;
  if (!head.has_draft_tensor()) return {};
  return head;
}

std::optional<TensorLocator> TensorLocator::draft_head() const {
  std::optional<TensorLocator> head = find_draft_head();
  if (!head) return head;
  const std::size_t layer = *head->layout_.draft_layer;
  for (const Role role : kDraftRoles) head->check_role(role, layer);
  head->check_block(layer);
  return head;
}

void TensorLocator::check_role(Role role, std::size_t layer, std::size_t expert) const {
  const auto [rows, cols] = matrix_shape(spec_, layer, role);
  if (is_norm(role) || is_vector(role)) {
    const Shape shape = {static_cast<std::int64_t>(cols)};
    const std::vector<std::string> tensors =
        is_vector(role) ? std::vector{vector_tensor(role, layer)} : gain_tensors(role, layer);
    for (const std::string& tensor : tensors) checked_vector(tensor, role, layer, cols / tensors.size());
    if (is_norm(role) && has_bias(spec_, layer, role)) {
      checked_tensor(norm_bias_tensor(role, layer), shape);
    }
    return;
  }
  const MatrixLocation matrix = stored(role, layer, expert);
  const bool quantized = quantization_ && quantization_->quantizes(name(role, layer, expert));
  if (!quantized) checked_tensors(matrix, cols);  // the parts of a quantized matrix are checked when it is read
  for (const StoredVector& vector : stored_vectors_) {
    if (vector.role == role) checked_tensor(vector_name(vector, layer), vector_shape(vector, layer));
  }
  if (has_bias(spec_, layer, role)) {
    checked_slice(matrix, matrix.bias(), {static_cast<std::int64_t>(matrix.stored_rows)});
  }
}

void TensorLocator::lengthen_for(std::size_t tokens) {
  if (tokens <= context_length() || spec_.long_context == 0) return;
  spec_.context_length = std::exchange(spec_.long_context, 0);
  for_each_attention(spec_, [](AttentionSpec& attention) {
    if (!attention.rope || attention.rope->long_factors.empty()) return;
    attention.rope->pair_factors = std::exchange(attention.rope->long_factors, {});
  });
}

std::string TensorLocator::name(Role role, std::size_t layer, std::size_t expert) const {
  return draft_head_name(layout_, module_name(*architecture_, role, layer, expert, layout_.encoder_layers));
}

std::string TensorLocator::context(const std::string& tensor) const {
  return checkpoint_->path().string() + ": " + tensor;
}

StoredFactor TensorLocator::stored_factor(Role role) const {
  return layout_.written_by_ballast ? StoredFactor{} : family_factor(role);
}

bool TensorLocator::gain_is_in_matrices(Role norm) const {
  return std::ranges::any_of(stored_vectors_, [&](const StoredVector& vector) {
    return vector.multiplies == StoredVector::Multiplies::kInputs && role_row(vector.role).reads == norm;
  });
}

bool TensorLocator::changes_weights(Role role, std::size_t layer, std::size_t expert) const {
  const bool by_vector =
      std::ranges::any_of(stored_vectors_, [&](const StoredVector& vector) { return vector.role == role; });
  if (by_vector || stored_factor(role).weights != 1.0) return true;
  return adapter_ != nullptr && adapted(*adapter_, role, layer, expert).module != nullptr;
}

StoredFactor TensorLocator::family_factor(Role role) const {
  const auto factor = std::ranges::find(family_factors_, role, &StoredFactor::role);
  return factor == family_factors_.end() ? StoredFactor{} : *factor;
}

TensorLocator::Adapted TensorLocator::adapted(const LoraAdapter& adapter, Role role, std::size_t layer,
                                              std::size_t expert) const {
  const MatrixLocation matrix = stored(role, layer, expert);
  const bool same_files = adapter.is_gguf() == layout_.gguf && !layout_.written_by_ballast;
  if (const std::string* module = same_files ? adapter.find(matrix.module) : nullptr) {
    return {.module = module, .outputs = matrix.stored_rows, .rows = matrix.rows, .cols = matrix.cols};
  }
  // transformers runs several modules where a tensor is for all of them, and other files have other names.
  StorageLayout layout = layout_;
  layout.gguf = adapter.is_gguf();
  layout.written_by_ballast = false;
  const std::size_t rows = matrix_shape(spec_, layer, role).first;
  const auto in_order = [&](Adapted own) {
    const RoleRow::Place place = role_row(role).place;
    if (place == RoleRow::Place::kBlock || place == RoleRow::Place::kExpert) {
      set_order(layout, spec_.layers[layer], role, rows, own.rows, own.cols);
    }
    return own;
  };
  for (const std::string& name :
       stored_names(*architecture_, role, layout.gguf, layer, expert, layout_.encoder_layers)) {
    if (const std::string* module = adapter.find(name)) return in_order({.module = module, .outputs = rows});
  }
  for (const FusedTensor& fused : architecture_->fused) {
    const std::string_view pattern = layout.gguf ? fused.gguf : fused.huggingface;
    if (pattern.empty() || std::ranges::find(fused.parts, role) == fused.parts.end()) continue;
    if (const std::string* module = adapter.find(fill_in(pattern, layer, expert))) {
      return in_order({.module = module,
                       .outputs = fused_rows(fused, spec_, layer),
                       .rows = rows_in_fused(fused, spec_, layer, role)});
    }
  }
  return {};
}

void TensorLocator::check_adapter(const LoraAdapter& adapter) const {
  std::vector<std::string> found;
  const auto check = [&](Role role, std::size_t layer, std::size_t expert) {
    if (is_norm(role) || is_vector(role)) return;
    const Adapted own = adapted(adapter, role, layer, expert);
    if (own.module == nullptr) return;
    found.push_back(*own.module);
    const LoraProduct& product = adapter.product(*own.module);
    const MatrixLocation matrix = stored(role, layer, expert);
    const std::size_t cols = matrix_shape(spec_, layer, role).second;
    if (product.outputs == own.outputs && product.inputs == cols && matrix.slices == 0 && matrix.heads == 0) return;
    throw Error(adapter.path().string() + ": " + *own.module,
                "has products of " + std::to_string(product.outputs) + " x " + std::to_string(product.inputs) +
                    ", which cannot be added to the model's matrix of " + std::to_string(own.outputs) + " x " +
                    std::to_string(cols));
  };
  for (const Role role : outer_roles(spec_)) check(role, 0, 0);
  for (std::size_t layer = 0; layer < spec_.layers.size(); ++layer) {
    for (const Part& part : block_linears(spec_, layer)) check(part.role, layer, part.expert);
  }
  adapter.check_modules(found, checkpoint_->names());
}

Shape TensorLocator::vector_shape(const StoredVector& vector, std::size_t layer) const {
  const bool of_experts = vector.multiplies == StoredVector::Multiplies::kExpertOutputs;
  const std::size_t size =
      of_experts ? spec_.layers[layer].mlp.experts->count : matrix_shape(spec_, layer, vector.role).second;
  return {static_cast<std::int64_t>(size)};
}

std::string TensorLocator::vector_name(const StoredVector& vector, std::size_t layer) const {
  return find_tensor(layout_, *checkpoint_, fill_in(vector.huggingface, layer, 0));
}

MatrixLocation TensorLocator::stored(Role role, std::size_t layer, std::size_t expert) const {
  return find_matrix(layout_, spec_, *checkpoint_, role, layer, expert);
}

std::uint64_t TensorLocator::stored_bytes(Role role, std::size_t layer, std::size_t expert) const {
  const auto size = [&](const std::string& tensor) { return checkpoint_->tensor(tensor).bytes.size(); };
  if (is_vector(role)) return size(vector_tensor(role, layer));
  if (is_norm(role)) {
    std::uint64_t bytes = 0;
    for (const std::string& tensor : gain_tensors(role, layer)) bytes += size(tensor);
    if (norm_spec(spec_, layer, role).bias) bytes += size(norm_bias_tensor(role, layer));
    return bytes;
  }
  const MatrixLocation matrix = stored(role, layer, expert);
  if (matrix.foreign) {
    std::uint64_t bytes = 0;
    const auto [own_rows, cols] = matrix_shape(spec_, layer, role);
    for (const std::string& tensor : checked_tensors(matrix, cols)) bytes += size(tensor);
    return bytes * own_rows / matrix.stored_rows;
  }
  const std::uint64_t rows = matrix.stored_rows * std::max<std::size_t>(1, matrix.slices);
  const std::uint64_t scales = matrix.mxfp4 ? size(matrix.scales()) : 0;
  return (size(matrix.weight()) + scales) / rows * matrix_shape(spec_, layer, role).first;
}

TensorView TensorLocator::checked_tensor(const std::string& name, const Shape& shape) const {
  TensorView view = checkpoint_->tensor(name);
  if (view.shape != shape) {
    throw Error(context(name), "has shape " + shape_string(view.shape) + ", config.json gives " + shape_string(shape));
  }
  return view;
}

TensorView TensorLocator::checked_matrix(const MatrixLocation& matrix, std::size_t cols) const {
  const auto rows = static_cast<std::int64_t>(matrix.stored_rows);
  if (matrix.mxfp4) {
    if (cols % formats::kMxfp4BlockSize != 0) {
      throw Error(context(matrix.weight()), "has rows of " + std::to_string(cols) + " values: no whole blocks");
    }
    const auto blocks = static_cast<std::int64_t>(cols / formats::kMxfp4BlockSize);
    TensorView view = checked_slice(matrix, matrix.weight(), {rows, blocks, formats::kMxfp4BlockSize / 2});
    for (const TensorView& part : {view, checked_scales(matrix, cols)}) {
      if (part.dtype != DType::kU8) throw Error(context(matrix.module), "its blocks and scales must be of type U8");
    }
    return view;
  }
  const auto heads = static_cast<std::int64_t>(matrix.heads);
  Shape shape = {heads == 0 ? rows : rows / heads, static_cast<std::int64_t>(cols)};
  if (matrix.transposed) std::swap(shape[0], shape[1]);
  if (heads > 0) shape.insert(shape.begin(), heads);
  return checked_slice(matrix, matrix.weight(), std::move(shape));
}

std::vector<std::string> TensorLocator::checked_tensors(const MatrixLocation& matrix, std::size_t cols) const {
  if (!matrix.foreign) {
    checked_matrix(matrix, cols);
    return {matrix.weight()};
  }
  return codec_->checked_tensors(*checkpoint_, matrix.module, matrix.stored_rows, cols);
}

TensorView TensorLocator::checked_scales(const MatrixLocation& matrix, std::size_t cols) const {
  return checked_slice(
      matrix, matrix.scales(),
      {static_cast<std::int64_t>(matrix.stored_rows), static_cast<std::int64_t>(cols / formats::kMxfp4BlockSize)});
}

TensorView TensorLocator::checked_slice(const MatrixLocation& matrix, const std::string& name, Shape shape) const {
  if (matrix.slices == 0) return checked_tensor(name, shape);
  shape.insert(shape.begin(), static_cast<std::int64_t>(matrix.slices));
  TensorView slice = checked_tensor(name, shape);
  const std::size_t bytes = slice.bytes.size() / matrix.slices;
  slice.bytes = slice.bytes.subspan(matrix.slice * bytes, bytes);
  slice.shape.erase(slice.shape.begin());
  return slice;
}

TensorView TensorLocator::checked_vector(const std::string& name, Role role, std::size_t layer,
                                         std::size_t size) const {
  const Shape flat = {static_cast<std::int64_t>(size)};
  const auto other_shape = role_row(role).stored_shape;
  if (other_shape == nullptr || layout_.written_by_ballast) return checked_tensor(name, flat);
  const Shape other = other_shape(spec_, spec_.layers[layer]);
  if (layout_.gguf) {  // a GGUF leaves out dimensions of 1
    const TensorView view = checkpoint_->tensor(name);
    if (without_ones(view.shape) == without_ones(other)) return view;
  }
  const bool may_be_other = element_count(other) == flat.front();
  return checked_tensor(name, may_be_other && checkpoint_->tensor(name).shape.size() == other.size() ? other : flat);
}

std::vector<std::string> TensorLocator::gain_tensors(Role norm, std::size_t layer) const {
  if (!norm_spec(spec_, layer, norm).gain || gain_is_in_matrices(norm)) return {};
  const auto name_of = [&](std::size_t head) {
    return find_vector(layout_, *checkpoint_, norm, "weight", layer, head);
  };
  std::vector<std::string> names = {name_of(0)};
  const std::size_t heads = norm == Role::kQueryNorm || norm == Role::kKeyNorm
                                ? matrix_shape(spec_, layer, norm).second / spec_.layers[layer].attention()->head_size
                                : 1;
  if (heads == 1 || name_of(1) == names.front()) return names;
  for (std::size_t head = 1; head < heads; ++head) names.push_back(name_of(head));
  return names;
}

void TensorLocator::release(Part part, std::size_t layer) const {
  const MatrixLocation matrix = stored(part.role, layer, part.expert);
  if (matrix.foreign) {
    const std::size_t cols = matrix_shape(spec_, layer, part.role).second;
    for (const std::string& tensor : checked_tensors(matrix, cols)) checkpoint_->release(tensor);
    return;
  }
  const std::string tensor = matrix.weight();
  if (checkpoint_->contains(tensor)) checkpoint_->release(tensor);
}

void TensorLocator::read_ahead(std::size_t layer, std::size_t expert) const {
  for (const Role role : {Role::kExpertGate, Role::kExpertUp, Role::kExpertDown}) {
    if (!has_role(spec_, spec_.layers[layer], role)) continue;
    const std::string module = name(role, layer, expert);
    std::vector<std::string> tensors;
    if (quantization_ && quantization_->tensors.contains(module)) {
      tensors = formats::quantized_tensor_names(*checkpoint_, module);
    } else {
      const MatrixLocation matrix = stored(role, layer, expert);
      const std::size_t cols = matrix_shape(spec_, layer, role).second;
      if (matrix.foreign) {
        tensors = checked_tensors(matrix, cols);
      } else {  // it may be a part of a tensor
        files::prefetch_pages(checked_matrix(matrix, cols).bytes);
      }
    }
    for (const std::string& tensor : tensors) files::prefetch_pages(checkpoint_->tensor(tensor).bytes);
  }
}

void TensorLocator::release_copied() const {
  for (const std::string& name : checkpoint_->names()) {
    if (dtype_info(checkpoint_->tensor(name).dtype).block_elements > 1) checkpoint_->release(name);
  }
}

void TensorLocator::release_block(std::size_t layer) const {
  for (const Part& part : block_linears(spec_, layer)) release(part, layer);
}

bool TensorLocator::is_rounded(Role role, std::size_t layer, std::size_t expert) const {
  const MatrixLocation matrix = stored(role, layer, expert);
  if (adapter_ != nullptr && adapted(*adapter_, role, layer, expert).module != nullptr) return false;
  return matrix.foreign || matrix.mxfp4 || dtype_info(checkpoint_->tensor(matrix.weight()).dtype).block_elements > 1;
}

std::string TensorLocator::vector_tensor(Role role, std::size_t layer) const {
  return find_vector(layout_, *checkpoint_, role, "", layer);
}

std::string TensorLocator::norm_bias_tensor(Role norm, std::size_t layer) const {
  return find_vector(layout_, *checkpoint_, norm, "bias", layer);
}

}  // namespace ballast::model
