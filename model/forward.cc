#include "model/forward.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/elementwise.h"
#include "model/arch/rope_config.h"
#include "model/forward_parts.h"

namespace ballast::model {

namespace {

std::size_t count_tokens(std::span<const BatchSequence> batch) {
  std::size_t tokens = 0;
  for (const BatchSequence& sequence : batch) tokens += sequence.tokens;
  return tokens;
}

void forward_pre_norm(const BlockPass& pass, float* hidden) {
  BlockActivations& a = pass.activations;
  const std::size_t size = pass.tokens * pass.spec.hidden_size;
  pass.block.attention_norm.apply(hidden, pass.tokens, a.attention_input.data());
  forward_attention(pass, a.attention_input.data(), a.projected.data());
  kernels::add(a.projected.data(), size, hidden);
  pass.block.mlp_norm.apply(hidden, pass.tokens, a.mlp_input.data());
  forward_mlp(pass, a.mlp_input.data(), a.projected.data());
  kernels::add(a.projected.data(), size, hidden);
}

void forward_post_norm(const BlockPass& pass, float* hidden) {
  BlockActivations& a = pass.activations;
  const std::size_t size = pass.tokens * pass.spec.hidden_size;
  std::copy_n(hidden, size, a.attention_input.data());  // kept for calibration
  forward_attention(pass, a.attention_input.data(), a.projected.data());
  kernels::add(a.projected.data(), size, hidden);
  pass.block.attention_norm.apply(hidden, pass.tokens, hidden);
  std::copy_n(hidden, size, a.mlp_input.data());
  forward_mlp(pass, a.mlp_input.data(), a.projected.data());
  kernels::add(a.projected.data(), size, hidden);
  pass.block.mlp_norm.apply(hidden, pass.tokens, hidden);
}

void forward_parallel(const BlockPass& pass, float* hidden) {
  BlockActivations& a = pass.activations;
  const std::size_t size = pass.tokens * pass.spec.hidden_size;
  grow(a.mlp_projected, size);
  pass.block.attention_norm.apply(hidden, pass.tokens, a.attention_input.data());
  const float* mlp_input = a.attention_input.data();
  if (pass.spec.layout == BlockLayout::kParallel) {
    pass.block.mlp_norm.apply(hidden, pass.tokens, a.mlp_input.data());
    mlp_input = a.mlp_input.data();
  }
  forward_attention(pass, a.attention_input.data(), a.projected.data());
  forward_mlp(pass, mlp_input, a.mlp_projected.data());
  kernels::add(a.projected.data(), size, hidden);
  kernels::add(a.mlp_projected.data(), size, hidden);
}

// What two halves of a block read together was recorded by each of them.
void merge_inputs(std::vector<LinearInput>& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (std::size_t j = inputs.size() - 1; j > i; --j) {
      if (inputs[j].rows != inputs[i].rows || inputs[j].count == 0 || inputs[i].count == 0) continue;
      inputs[i].linears.insert(inputs[i].linears.end(), inputs[j].linears.begin(), inputs[j].linears.end());
      inputs.erase(inputs.begin() + static_cast<std::ptrdiff_t>(j));
    }
  }
}

}  // namespace

RopeTable::RopeTable(const ModelSpec& spec) {
  if (spec.positions != PositionKind::kRope) return;
  frequencies_ = rope_frequencies(spec.rope);
  amplitude_ = spec.rope.amplitude;
}

void RopeTable::look_up(std::span<const BatchSequence> batch, RopeAngles& angles) const {
  const bool rolling = std::ranges::any_of(batch, [](const BatchSequence& s) { return s.cache->sinks() > 0; });
  fill(batch, false, angles.cos, angles.sin);
  angles.slot_cos.clear();
  angles.slot_sin.clear();
  if (rolling) fill(batch, true, angles.slot_cos, angles.slot_sin);
}

void RopeTable::fill(std::span<const BatchSequence> batch, bool in_slots, std::vector<float>& cos,
                     std::vector<float>& sin) const {
  const std::size_t size = count_tokens(batch) * frequencies_.size();
  cos.resize(size);
  sin.resize(size);
  std::size_t at = 0;
  for (const BatchSequence& sequence : batch) {
    for (std::size_t i = 0; i < sequence.tokens; ++i) {
      std::size_t position = sequence.cache->length() + i;
      if (in_slots) position = sequence.cache->slot(position);
      for (const double frequency : frequencies_) {
        const double angle = static_cast<double>(position) * frequency;
        cos[at] = static_cast<float>(std::cos(angle) * amplitude_);
        sin[at] = static_cast<float>(std::sin(angle) * amplitude_);
        ++at;
      }
    }
  }
}

void BlockPass::record(std::vector<const Linear*> linears, const float* rows, std::size_t count,
                       std::vector<std::size_t> row_tokens) const {
  activations.inputs.push_back(
      {.linears = std::move(linears), .rows = rows, .count = count, .tokens = std::move(row_tokens)});
}

void BlockPass::apply_linears(std::span<const LinearOutput> outputs, const float* rows, std::size_t count,
                              std::span<const std::size_t> row_tokens) const {
  if (options.record_inputs) {
    std::vector<const Linear*> linears;
    for (const LinearOutput& output : outputs) linears.push_back(output.linear);
    record(std::move(linears), rows, count, {row_tokens.begin(), row_tokens.end()});
  }
  if (count > 0) apply(outputs, rows, count, activations.quantized);
}

void forward_block(const ModelSpec& spec, const BlockWeights& block, std::size_t layer, const RopeAngles& angles,
                   std::span<const BatchSequence> batch, std::size_t cache_layer, float* hidden,
                   BlockActivations& activations, const ForwardOptions& options) {
  const BlockPass pass = {.spec = spec,
                          .block = block,
                          .layer = layer,
                          .angles = angles,
                          .batch = batch,
                          .cache_layer = cache_layer,
                          .activations = activations,
                          .options = options,
                          .tokens = count_tokens(batch)};
  const std::size_t size = pass.tokens * spec.hidden_size;
  grow(activations.attention_input, size);
  grow(activations.mlp_input, size);
  grow(activations.projected, size);
  activations.inputs.clear();
  switch (spec.layout) {
    case BlockLayout::kPreNorm:
      forward_pre_norm(pass, hidden);
      break;
    case BlockLayout::kPostNorm:
      forward_post_norm(pass, hidden);
      break;
    case BlockLayout::kParallel:
    case BlockLayout::kParallelShared:
      forward_parallel(pass, hidden);
      break;
  }
  merge_inputs(activations.inputs);
}

}  // namespace ballast::model
