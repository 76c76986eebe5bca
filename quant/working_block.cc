#include "quant/working_block.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ballast/error.h"

namespace ballast::quant {

using model::Role;

namespace {

float largest_magnitude(const std::vector<float>& values) {
  float largest = 0;
#pragma omp parallel for reduction(max : largest)
  for (std::size_t i = 0; i < values.size(); ++i) largest = std::max(largest, std::abs(values[i]));
  return largest;
}

}  // namespace

WorkingBlockLoader::WorkingBlockLoader(const model::ModelSource& source, const Statistics* statistics)
    : source_(source), statistics_(statistics) {}

std::uint64_t WorkingBlockLoader::stored_bytes(Role role, std::size_t layer) const {
  return source_.checkpoint().tensor(source_.stored_name(role, layer)).bytes.size();
}

WorkingLinear WorkingBlockLoader::load_linear(Role role, std::size_t layer, bool values) const {
  WorkingLinear linear;
  linear.role = role;
  linear.name = source_.name(role, layer);
  model::FloatWeights weights = source_.float_weights(role, layer);
  linear.rows = weights.rows;
  linear.cols = weights.cols;
  linear.absmax = largest_magnitude(weights.values);
  linear.bias = source_.bias(role, layer);
  linear.bytes_before = stored_bytes(role, layer);
  if (values) linear.values = std::move(weights.values);
  return linear;
}

WorkingNorm WorkingBlockLoader::load_norm(Role role, std::size_t layer) const {
  return {.role = role,
          .name = source_.name(role, layer),
          .gain = source_.vector(role, layer),
          .bytes_before = stored_bytes(role, layer)};
}

void WorkingBlockLoader::add_input(WorkingBlock& block, std::vector<std::size_t> readers,
                                   std::optional<std::size_t> norm) const {
  WorkingInput input{.readers = std::move(readers), .norm = norm, .statistics = {}};
  if (statistics_ != nullptr) {
    const WorkingLinear& reader = block.linears[input.readers.front()];
    const auto it = std::ranges::find_if(statistics_->inputs, [&](const LinearInputStatistics& candidate) {
      return std::ranges::find(candidate.linears, reader.name) != candidate.linears.end();
    });
    if (it == statistics_->inputs.end() || it->channels.min.size() != reader.cols) {
      throw Error("statistics", "they are of another model: no input of " + std::to_string(reader.cols) +
                                    " channels for " + reader.name);
    }
    input.statistics = *it;
  }
  block.inputs.push_back(std::move(input));
}

WorkingBlock WorkingBlockLoader::load(std::size_t index, bool values) const {
  WorkingBlock block;
  const ModelSpec& spec = source_.spec();
  if (index == 0) {
    block.linears.push_back(load_linear(Role::kEmbedding, 0, values));
    if (spec.tied_embeddings) add_input(block, {0}, {});  // it is read as the head, behind the final norm
    return block;
  }
  if (index == spec.layers + 1) {
    block.norms.push_back(load_norm(Role::kFinalNorm, 0));
    if (!spec.tied_embeddings) {
      block.linears.push_back(load_linear(Role::kHead, 0, values));
      add_input(block, {0}, 0);
    }
    return block;
  }
  const std::size_t layer = index - 1;
  for (const Role role : model::block_norms()) block.norms.push_back(load_norm(role, layer));
  for (const Role role : model::block_linears()) block.linears.push_back(load_linear(role, layer, values));
  add_input(block, {0, 1, 2}, 0);
  add_input(block, {3}, {});
  add_input(block, {4, 5}, 1);
  add_input(block, {6}, {});
  return block;
}

}  // namespace ballast::quant
