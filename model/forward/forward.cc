#include "model/forward/forward.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/parallel.h"
#include "model/arch/rope_config.h"
#include "model/block_structure.h"
#include "model/forward/forward_parts.h"

namespace ballast::model {

namespace {

constexpr std::size_t kOperationsOfAnAngle = 64;  // a sine and a cosine in F64

std::size_t count_tokens(std::span<const BatchSequence> batch) {
  std::size_t tokens = 0;
  for (const BatchSequence& sequence : batch) tokens += sequence.tokens;
  return tokens;
}

void forward_pre_norm(const BlockPass& pass, float* hidden) {
  BlockActivations& a = pass.activations;
  const std::size_t size = pass.spec.hidden_size;
  const auto normalized_by = [hidden, size](const Norm& norm) {
    return [&norm, hidden, size](std::size_t row, float* dst) -> const float* {
      norm.apply(hidden + row * size, 1, dst);
      return dst;
    };
  };
  const auto attention_row = normalized_by(pass.block.attention_norm);
  BlockPass rest = pass;
  rest.tokens = forward_attention(pass, {kernels::RowSource(attention_row), size, a.attention_input.data()}, hidden);
  if (rest.tokens == 0) return;
  const auto mlp_row = normalized_by(pass.block.mlp_norm);
  forward_mlp(rest, {kernels::RowSource(mlp_row), size, a.mlp_input.data()}, hidden);
}

void forward_post_norm(const BlockPass& pass, float* hidden) {
  BlockActivations& a = pass.activations;
  const std::size_t size = pass.tokens * pass.spec.hidden_size;
  std::copy_n(hidden, size, a.attention_input.data());
  forward_attention(pass, {a.attention_input.data(), pass.spec.hidden_size}, hidden);
  pass.block.attention_norm.apply(hidden, pass.tokens, hidden);
  std::copy_n(hidden, size, a.mlp_input.data());
  forward_mlp(pass, {a.mlp_input.data(), pass.spec.hidden_size}, hidden);
  pass.block.mlp_norm.apply(hidden, pass.tokens, hidden);
}

void forward_parallel(const BlockPass& pass, float* hidden) {
  BlockActivations& a = pass.activations;
  pass.block.attention_norm.apply(hidden, pass.tokens, a.attention_input.data());
  const float* mlp_input = a.attention_input.data();
  if (pass.spec.layout == BlockLayout::kParallel) {
    pass.block.mlp_norm.apply(hidden, pass.tokens, a.mlp_input.data());
    mlp_input = a.mlp_input.data();
  }
  forward_attention(pass, {a.attention_input.data(), pass.spec.hidden_size}, hidden);
  forward_mlp(pass, {mlp_input, pass.spec.hidden_size}, hidden);
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
  rotation_ = kernels::KeyRotation(frequencies_, amplitude_, rotary_offset(spec));
}

void RopeTable::look_up(std::span<const BatchSequence> batch, RopeAngles& angles) const {
  const bool rolling = std::ranges::any_of(batch, [](const BatchSequence& s) { return s.cache->sinks() > 0; });
  angles.rotation = &rotation_;
  fill(batch, false, angles.cos, angles.sin);
  angles.slot_cos.clear();
  angles.slot_sin.clear();
  if (rolling) fill(batch, true, angles.slot_cos, angles.slot_sin);
}

void RopeTable::fill(std::span<const BatchSequence> batch, bool in_slots, std::vector<float>& cos,
                     std::vector<float>& sin) const {
  const std::size_t pairs = frequencies_.size();
  cos.resize(count_tokens(batch) * pairs);
  sin.resize(cos.size());
  std::size_t first = 0;
  for (const BatchSequence& sequence : batch) {
    const std::size_t threads = kernels::threads_for(sequence.tokens * pairs * kOperationsOfAnAngle);
    kernels::parallel_ranges(sequence.tokens, threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        std::size_t position = sequence.cache->position() + i;
        if (in_slots) position = sequence.cache->slot(position);
        for (std::size_t pair = 0; pair < pairs; ++pair) {
          const double angle = static_cast<double>(position) * frequencies_[pair];
          cos[(first + i) * pairs + pair] = static_cast<float>(std::cos(angle) * amplitude_);
          sin[(first + i) * pairs + pair] = static_cast<float>(std::sin(angle) * amplitude_);
        }
      }
    });
    first += sequence.tokens;
  }
}

void BlockPass::record(std::vector<const Linear*> linears, const float* rows, std::size_t count,
                       std::vector<std::size_t> row_tokens) const {
  activations.inputs.push_back(
      {.linears = std::move(linears), .rows = rows, .count = count, .tokens = std::move(row_tokens)});
}

void BlockPass::apply_linears(std::span<const LinearOutput> outputs, const LinearRows& rows, std::size_t count,
                              std::span<const std::size_t> row_tokens) const {
  if (!options.record_inputs) {
    if (count > 0) apply(outputs, rows, count, activations.quantized);
    return;
  }
  std::vector<const Linear*> linears;
  for (const LinearOutput& output : outputs) linears.push_back(output.linear);
  const LinearRows kept = rows.in_memory(count);
  record(std::move(linears), kept.all(count), count, {row_tokens.begin(), row_tokens.end()});
  if (count > 0) apply(outputs, kept, count, activations.quantized);
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
  activations.inputs.clear();
  kernels::with_team([&] {
    switch (spec.layout) {
      case BlockLayout::kPreNorm:
        return forward_pre_norm(pass, hidden);
      case BlockLayout::kPostNorm:
        return forward_post_norm(pass, hidden);
      case BlockLayout::kParallel:
      case BlockLayout::kParallelShared:
        return forward_parallel(pass, hidden);
    }
  });
  merge_inputs(activations.inputs);
}

}  // namespace ballast::model
