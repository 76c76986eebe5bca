#include "quant/block/working_block.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "ballast/error.h"
#include "formats/codecs/ballast.h"
#include "quant/rounding/rounding.h"

namespace ballast::quant {

using model::Role;

namespace {

float largest_magnitude(const std::vector<float>& values) {
  float largest = 0;
#pragma omp parallel for reduction(max : largest)
  for (std::size_t i = 0; i < values.size(); ++i) largest = std::max(largest, std::abs(values[i]));
  return largest;
}

LinearInputStatistics nothing_measured(std::size_t channels) {
  const std::vector<float> zeros(channels);
  return {.linears = {},
          .channels = {.min = zeros, .max = zeros, .mean = zeros, .mean_square = zeros, .ordinary_absmax = zeros}};
}

/// Returns rows begin .. end of a vocabulary's matrix as a linear, with those of its values that are in memory.
WorkingLinear range_of(const WorkingLinear& whole, std::size_t index, std::size_t begin, std::size_t end) {
  const auto first = static_cast<std::ptrdiff_t>(begin * whole.cols);
  const auto last = static_cast<std::ptrdiff_t>(end * whole.cols);
  WorkingLinear range;
  range.part = {whole.part.role, index};
  range.name = formats::row_range_name(whole.name, index);
  range.rows = end - begin;
  range.cols = whole.cols;
  range.absmax = whole.absmax;
  range.bytes_before = whole.bytes_before * end / whole.rows - whole.bytes_before * begin / whole.rows;
  if (!whole.values.empty()) range.values.assign(whole.values.begin() + first, whole.values.begin() + last);
  return range;
}

}  // namespace

DType WorkingLinear::half_type() const {
  return scale_type ? *scale_type : half_type_for(absmax);
}

void WorkingLinear::change(Change change) {
  if (!values.empty()) return change(values.data());
  if (load != nullptr) changes.push_back(std::move(change));
}

std::vector<float> WorkingLinear::loaded() const {
  std::vector<float> loaded = load();
  for (const Change& change : changes) change(loaded.data());
  return loaded;
}

LinearValues::LinearValues(const WorkingLinear& linear) {
  if (linear.load != nullptr) loaded_ = linear.loaded();
  all_ = linear.load != nullptr ? loaded_ : linear.values;
}

bool is_routed_expert(Role role) {
  return model::role_row(role).place == model::RoleRow::Place::kExpert;
}

bool is_embedding(Role role) {
  return model::role_row(role).kind == model::RoleRow::Kind::kTable;
}

bool is_vocabulary(Role role) {
  return role == Role::kEmbedding || role == Role::kHead;
}

std::vector<std::size_t> vocabulary_ranges(std::size_t rows) {
  constexpr std::size_t kRanges = 8;
  constexpr std::size_t kMultiple = 64;  // of the rows that kernels multiply together
  if (rows >> (kRanges - 1) < kMultiple) return {0, rows};
  std::vector<std::size_t> begins = {0};
  for (std::size_t halvings = kRanges - 1; halvings > 0; --halvings) {
    begins.push_back((rows >> halvings) / kMultiple * kMultiple);
  }
  begins.push_back(rows);
  return begins;
}

bool writes_stream(Role role) {
  return model::role_row(role).writes_stream;
}

bool is_down(Role role) {
  return role == Role::kDown || role == Role::kSharedDown || role == Role::kExpertDown;
}

WorkingLinear* WorkingBlock::find(Role role, std::size_t expert) {
  const auto it = std::ranges::find(linears, model::Part{role, expert}, &WorkingLinear::part);
  return it == linears.end() ? nullptr : &*it;
}

std::vector<WorkingLinear*> WorkingBlock::find_all(Role role) {
  std::vector<WorkingLinear*> found;
  for (WorkingLinear& linear : linears) {
    if (linear.part.role == role) found.push_back(&linear);
  }
  return found;
}

WorkingInput* WorkingBlock::head_input() {
  const auto it = std::ranges::find_if(
      inputs, [&](const WorkingInput& input) { return is_vocabulary(linears[input.readers.front()].part.role); });
  return it == inputs.end() ? nullptr : &*it;
}

void WorkingBlock::forget_moments() {
  for (WorkingInput& input : inputs) {
    input.moments.reset();
    input.drift.reset();
    input.expert_moments.reset();
  }
}

ChannelStatistics* WorkingBlock::input_statistics(const WorkingLinear& reader) {
  const auto index = static_cast<std::size_t>(&reader - linears.data());
  const auto it = std::ranges::find_if(inputs, [&](const WorkingInput& input) {
    return std::ranges::find(input.readers, index) != input.readers.end();
  });
  return it == inputs.end() || !it->statistics ? nullptr : &it->statistics->channels;
}

WorkingBlockLoader::WorkingBlockLoader(const model::ModelSource& source, const Statistics* statistics,
                                       const Options& options)
    : source_(source),
      own_head_(options.untie_head || !source.spec().tied_embeddings),
      split_vocabulary_(options.split_vocabulary) {
  if (statistics != nullptr) statistics_.emplace(*statistics, source);
}

WorkingLinear WorkingBlockLoader::load_linear(model::Part part, std::size_t layer, bool values) const {
  // An untied head starts as a copy of the embedding.
  const bool copied = part.role == Role::kHead && source_.spec().tied_embeddings;
  const Role stored = copied ? Role::kEmbedding : part.role;
  WorkingLinear linear;
  linear.part = part;
  linear.name = source_.name(part.role, layer, part.expert);
  std::tie(linear.rows, linear.cols) = model::matrix_shape(source_.spec(), layer, stored);
  linear.bytes_before = copied ? 0 : source_.stored_bytes(stored, layer, part.expert);
  if (values) {
    linear.values = source_.float_weights(stored, layer, part.expert).values;
    linear.absmax = largest_magnitude(linear.values);
    source_.release({.role = stored, .expert = part.expert}, layer);
    if (is_routed_expert(part.role) || is_embedding(part.role)) {
      linear.load = [&source = source_, part, layer] {
        std::vector<float> loaded = source.float_weights(part.role, layer, part.expert).values;
        source.release(part, layer);
        return loaded;
      };
      linear.values = std::vector<float>();  // {} would keep the memory
    }
    linear.bias = source_.bias(part.role, layer, part.expert);
  } else if (model::has_bias(source_.spec(), layer, part.role)) {
    linear.bias.resize(linear.rows);
  }
  return linear;
}

std::vector<std::size_t> WorkingBlockLoader::add_vocabulary(WorkingBlock& block, Role role, bool values) const {
  WorkingLinear whole = load_linear({role}, 0, values);
  // A head's bias, and biases that folds would make, have no place in ranges.
  const bool split = split_vocabulary_ && !source_.spec().biases.head && !source_.spec().norm.bias;
  const std::vector<std::size_t> begins = split ? vocabulary_ranges(whole.rows) : std::vector<std::size_t>{};
  std::vector<std::size_t> indices = {block.linears.size()};
  if (begins.size() <= 2) {
    block.linears.push_back(std::move(whole));
    return indices;
  }
  for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
    WorkingLinear& range = block.linears.emplace_back(range_of(whole, i, begins[i], begins[i + 1]));
    if (i > 0) indices.push_back(indices.back() + 1);
    if (whole.load == nullptr) continue;
    range.load = [&source = source_, part = whole.part, first = begins[i], count = range.rows] {
      std::vector<float> rows = source.float_rows(part.role, first, count);
      source.release(part, 0);
      return rows;
    };
  }
  return indices;
}

void WorkingBlockLoader::add_norm(WorkingBlock& block, Role role, std::size_t layer, bool values) const {
  WorkingNorm& norm = block.norms.emplace_back();
  norm.role = role;
  norm.name = source_.name(role, layer);
  norm.bytes_before = source_.stored_bytes(role, layer);
  if (values) {
    model::Norm stored = source_.norm(role, layer);
    norm.gain = std::move(stored.gain);
    norm.bias = std::move(stored.bias);
    return;
  }
  const std::size_t size = model::matrix_shape(source_.spec(), layer, role).second;
  norm.gain.assign(size, 1.0F);
  if (model::norm_spec(source_.spec(), layer, role).bias) norm.bias.resize(size);
}

void WorkingBlockLoader::add_vector(WorkingBlock& block, Role role, std::size_t layer, bool values) const {
  WorkingVector& vector = block.vectors.emplace_back();
  vector.role = role;
  vector.name = source_.name(role, layer);
  vector.is_written = layer == 0 || !model::role_row(role).shared_by_layers;
  vector.bytes_before = source_.stored_bytes(role, layer);
  if (values) {
    vector.values = source_.vector(role, layer);
  } else {
    vector.values.resize(model::matrix_shape(source_.spec(), layer, role).second);
  }
}

LinearInputStatistics WorkingBlockLoader::statistics_of(const WorkingLinear& reader, std::size_t layer) const {
  const LinearInputStatistics* found = statistics_->find(reader.part.role, layer, reader.part.expert);
  if (found == nullptr || found->channels.min.size() != reader.cols) {
    throw Error("statistics", "they are of another model: no input of " + std::to_string(reader.cols) +
                                  " channels for " + reader.name);
  }
  return *found;
}

void WorkingBlockLoader::add_input(WorkingBlock& block, std::vector<std::size_t> readers,
                                   std::optional<std::size_t> norm, bool values) const {
  const WorkingLinear& reader = block.linears[readers.front()];
  WorkingInput input{.readers = std::move(readers), .norm = norm, .statistics = {}};
  if (statistics_) {
    input.statistics = statistics_of(reader, block.layer.value_or(0));
  } else if (!values) {
    input.statistics = nothing_measured(reader.cols);
  }
  block.inputs.push_back(std::move(input));
}

WorkingBlock WorkingBlockLoader::load_front(bool values) const {
  const ModelSpec& spec = source_.spec();
  WorkingBlock block;
  const std::vector<std::size_t> embedding = add_vocabulary(block, Role::kEmbedding, values);
  if (spec.learned_positions) {
    block.linears.push_back(load_linear({Role::kPositionEmbedding}, 0, values));
    if (spec.encoder) block.linears.push_back(load_linear({Role::kEncoderPositionEmbedding}, 0, values));
  }
  if (spec.token_types > 0) block.linears.push_back(load_linear({Role::kTokenTypeEmbedding}, 0, values));
  if (spec.embedding_norm) add_norm(block, Role::kEmbeddingNorm, 0, values);
  if (spec.embedding_size > 0) block.linears.push_back(load_linear({Role::kEmbeddingProjection}, 0, values));
  if (spec.encoder && spec.embedding_norm) add_norm(block, Role::kEncoderEmbeddingNorm, 0, values);
  if (spec.token_inputs) {
    block.linears.push_back(load_linear({Role::kTokenInputTable}, 0, values));
    block.linears.push_back(load_linear({Role::kTokenInputProjection}, 0, values));
    add_norm(block, Role::kTokenInputNorm, 0, values);
  }
  if (!own_head_) add_input(block, embedding, {}, values);  // it is read as the head, after the final norm
  return block;
}

WorkingBlock WorkingBlockLoader::load_back(bool values) const {
  const ModelSpec& spec = source_.spec();
  WorkingBlock block;
  std::optional<std::size_t> norm;
  if (spec.has_final_norm()) {
    norm = 0;
    add_norm(block, Role::kFinalNorm, 0, values);
  }
  if (spec.head_transform) {
    block.linears.push_back(load_linear({Role::kHeadTransform}, 0, values));
    add_input(block, {0}, norm, values);
    norm = block.norms.size();
    add_norm(block, Role::kHeadNorm, 0, values);
  }
  if (own_head_) {
    add_input(block, add_vocabulary(block, Role::kHead, values), norm, values);
  }
  if (spec.biases.head) add_vector(block, Role::kHeadBias, 0, values);
  if (spec.stores_classifier()) add_classifier(block, values);
  return block;
}

/// Adds a classifier, which is not rounded, so that its inputs are not measured.
void WorkingBlockLoader::add_classifier(WorkingBlock& block, bool values) const {
  const ClassifierSpec& classifier = *source_.spec().classifier;
  if (classifier.transform) block.linears.push_back(load_linear({Role::kClassifierTransform}, 0, values));
  if (classifier.transform_norm) add_norm(block, Role::kClassifierNorm, 0, values);
  block.linears.push_back(load_linear({Role::kClassifier}, 0, values));
}

WorkingBlock WorkingBlockLoader::load_block(std::size_t layer, bool values) const {
  const ModelSpec& spec = source_.spec();
  WorkingBlock block;
  block.layer = layer;
  for (const Role role : model::block_norms(spec, layer)) add_norm(block, role, layer, values);
  for (const model::BlockInput& input : model::block_inputs(spec, layer)) {
    std::vector<std::size_t> readers;
    for (const model::Part& part : input.readers) {
      readers.push_back(block.linears.size());
      block.linears.push_back(load_linear(part, layer, values));
    }
    const auto find_norm = [&](std::optional<Role> role) -> std::optional<std::size_t> {
      if (!role) return {};
      return std::ranges::find(block.norms, *role, &WorkingNorm::role) - block.norms.begin();
    };
    add_input(block, std::move(readers), find_norm(input.norm), values);
    block.inputs.back().gated_norm = find_norm(input.gated_norm);
  }
  for (const Role role : model::block_vectors(spec, layer)) add_vector(block, role, layer, values);
  if (!spec.draft_head || layer + 1 < spec.layers.size()) return block;
  for (const Role role : model::kDraftRoles) {
    if (model::is_norm(role)) {
      add_norm(block, role, layer, values);
      continue;
    }
    block.linears.push_back(load_linear({role}, layer, values));
    add_input(block, {block.linears.size() - 1}, {}, values);
  }
  return block;
}

WorkingBlock WorkingBlockLoader::load(std::size_t index, bool values) const {
  const bool is_back = index == source_.spec().layers.size() + 1;
  WorkingBlock block = index == 0 ? load_front(values) : is_back ? load_back(values) : load_block(index - 1, values);
  block.compute = source_.compute();
  return block;
}

}  // namespace ballast::quant
