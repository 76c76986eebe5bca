#include "model/forward/forward.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/activation.h"
#include "kernels/parallel.h"
#include "model/arch/rope_config.h"
#include "model/block/adapter.h"
#include "model/forward/forward_mlp.h"
#include "model/mixer/attention_kinds.h"
#include "model/mixer/mixer_kind.h"
#include "model/mixer/sequence_state.h"

namespace ballast::model {

namespace {

constexpr std::size_t kOperationsOfAnAngle = 64;  // a sine and a cosine in F64

std::size_t count_tokens(std::span<const BatchSequence> batch) {
  std::size_t tokens = 0;
  for (const BatchSequence& sequence : batch) tokens += sequence.tokens;
  return tokens;
}

/// Writes into the activations at which row each sequence ends.
void count_rows(std::span<const BatchSequence> batch, BlockActivations& activations) {
  activations.row_ends.clear();
  activations.wanted_ends.clear();
  std::size_t rows = 0;
  std::size_t wanted = 0;
  for (const BatchSequence& sequence : batch) {
    activations.row_ends.push_back(rows += sequence.tokens);
    activations.wanted_ends.push_back(wanted += sequence.wanted);
  }
}

/// Writes into the activations what adapters add to the layer's linears for each sequence; nothing if there is none.
void find_adapters(std::span<const BatchSequence> batch, std::size_t layer, BlockActivations& activations) {
  activations.adapters.clear();
  for (const BatchSequence& sequence : batch) {
    const Adapter* adapter = sequence.state->adapter();
    const AdapterPart* part = adapter == nullptr || adapter->layers[layer].empty() ? nullptr : &adapter->layers[layer];
    activations.adapters.push_back(part);
  }
  const auto none = [](const AdapterPart* part) { return part == nullptr; };
  if (std::ranges::all_of(activations.adapters, none)) activations.adapters.clear();
}

/// Adds the output of a half of the block for `count` rows to hidden, after the half's own norm, if there is one, and
/// the layout's, scaled as the spec says.
void add_returned(const BlockPass& pass, const Norm& own, const Norm& of_layout, std::size_t count, float* hidden) {
  float* returned = pass.activations.returned.data();
  if (!own.gain.empty()) own.apply(returned, count, returned);
  if (pass.spec.layout == BlockLayout::kOutputNorm) of_layout.apply(returned, count, returned);
  add_values(returned, count * pass.spec.hidden_size, static_cast<float>(pass.spec.residual_scale), hidden);
}

/// Returns the destination of a half's output: the stream, unless it must be transformed first.
float* destination(const BlockPass& pass, float* hidden) {
  if (pass.spec.adds_returned()) return hidden;
  kernels::AlignedArray<float>& returned = pass.activations.returned;
  returned.grow(pass.tokens * pass.spec.hidden_size);
  std::fill_n(returned.data(), pass.tokens * pass.spec.hidden_size, 0.0F);
  return returned.data();
}

/// Returns the pass for the rest of the block after the mixer.
BlockPass after_mixer(const BlockPass& pass) {
  BlockPass rest = pass;
  rest.rows = pass.rows_after_mixer();
  rest.tokens = rest.rows.count();
  return rest;
}

/// Calls Mixer::forward as the layout's first half.
std::size_t forward_mixer(const BlockPass& pass, const LinearRows& input, float* hidden) {
  float* dst = destination(pass, hidden);
  const std::size_t left = pass.block.mixer->forward(pass, input, dst);
  if (dst == hidden) return left;
  if (pass.options.wanted_only) keep_wanted_rows(pass.batch, pass.spec.hidden_size, hidden);
  add_returned(pass, pass.block.attention_post_norm, pass.block.attention_norm, left, hidden);
  return left;
}

void forward_second_half(const BlockPass& pass, const LinearRows& input, float* hidden) {
  if (!pass.layer.mlp.exists()) return;
  float* dst = destination(pass, hidden);
  forward_mlp(pass, input, dst);
  if (dst != hidden) add_returned(pass, pass.block.mlp_post_norm, pass.block.mlp_norm, pass.tokens, hidden);
}

/// Runs a block of this layout; returns the rows of hidden that continue, as Mixer::forward does.
std::size_t forward_pre_norm(const BlockPass& pass, float* hidden) {
  BlockActivations& a = pass.activations;
  const std::size_t size = pass.spec.hidden_size;
  const auto normalized_by = [hidden, size](const Norm& norm) {
    return [&norm, hidden, size](std::size_t row, float* dst) -> const float* {
      norm.apply(hidden + row * size, 1, dst);
      return dst;
    };
  };
  const auto normed_row = normalized_by(pass.block.attention_norm);
  const auto stream_row = [hidden, size](std::size_t row, float*) -> const float* { return hidden + row * size; };
  const kernels::RowSource attention_row =
      pass.layer.mixer_norm ? kernels::RowSource(normed_row) : kernels::RowSource(stream_row);
  const std::size_t left = forward_mixer(pass, {attention_row, size, a.attention_input.data()}, hidden);
  if (left == 0) return 0;
  const BlockPass rest = after_mixer(pass);
  const auto mlp_row = normalized_by(pass.block.mlp_norm);
  forward_second_half(rest, {kernels::RowSource(mlp_row), size, a.mlp_input.data()}, hidden);
  return left;
}

std::size_t forward_post_norm(const BlockPass& pass, float* hidden) {
  BlockActivations& a = pass.activations;
  const std::size_t size = pass.tokens * pass.spec.hidden_size;
  std::copy_n(hidden, size, a.attention_input.data());
  forward_mixer(pass, {a.attention_input.data(), pass.spec.hidden_size}, hidden);
  pass.block.attention_norm.apply(hidden, pass.tokens, hidden);
  if (!pass.layer.mlp.exists()) return pass.tokens;
  std::copy_n(hidden, size, a.mlp_input.data());
  forward_second_half(pass, {a.mlp_input.data(), pass.spec.hidden_size}, hidden);
  pass.block.mlp_norm.apply(hidden, pass.tokens, hidden);
  return pass.tokens;
}

std::size_t forward_output_norm(const BlockPass& pass, float* hidden) {
  BlockActivations& a = pass.activations;
  const std::size_t size = pass.spec.hidden_size;
  // Both halves read the stream in place, because their outputs are stored elsewhere first; calibration gets copies.
  const auto row = [hidden, size](std::size_t index, float*) -> const float* { return hidden + index * size; };
  const std::size_t left = forward_mixer(pass, {kernels::RowSource(row), size, a.attention_input.data()}, hidden);
  if (left == 0) return 0;
  forward_second_half(after_mixer(pass), {kernels::RowSource(row), size, a.mlp_input.data()}, hidden);
  return left;
}

std::size_t forward_parallel(const BlockPass& pass, float* hidden) {
  BlockActivations& a = pass.activations;
  pass.block.attention_norm.apply(hidden, pass.tokens, a.attention_input.data());
  const float* mlp_input = a.attention_input.data();
  if (pass.spec.layout == BlockLayout::kParallel) {
    pass.block.mlp_norm.apply(hidden, pass.tokens, a.mlp_input.data());
    mlp_input = a.mlp_input.data();
  }
  forward_mixer(pass, {a.attention_input.data(), pass.spec.hidden_size}, hidden);
  forward_second_half(pass, {mlp_input, pass.spec.hidden_size}, hidden);
  return pass.tokens;
}

/// Activates the rows of the continuing tokens of the batch, and multiplies them by the layer's own inputs of the
/// tokens.
void multiply_by_token_inputs(const BlockPass& pass, float* rows) {
  const StridedRows& inputs = pass.options.token_inputs;
  const std::size_t size = pass.spec.token_inputs->size;
  const float* input = inputs.rows;
  for (const BatchSequence& sequence : pass.batch) {
    const std::size_t count = pass.options.wanted_only ? sequence.wanted : sequence.tokens;
    input += (sequence.tokens - count) * inputs.stride;
    kernels::parallel_ranges(count, kernels::threads_for(count * size), [&](std::size_t begin, std::size_t end) {
      kernels::activate(pass.layer.mlp.activation, rows + begin * size, (end - begin) * size);
      for (std::size_t i = begin; i < end; ++i) {
        for (std::size_t c = 0; c < size; ++c) rows[i * size + c] *= input[i * inputs.stride + c];
      }
    });
    input += count * inputs.stride;
    rows += count * size;
  }
}

/// Adds the layer's inputs of the tokens to the rows of hidden that the mixer has left.
void add_token_inputs(const BlockPass& pass, float* hidden) {
  const StepRows& rows = pass.rows_after_mixer();
  const std::size_t count = rows.count();
  const TokenInputWeights& weights = *pass.block.token_inputs;
  const std::size_t size = pass.spec.token_inputs->size;
  const std::size_t hidden_size = pass.spec.hidden_size;
  BlockActivations& a = pass.activations;
  a.token_stream.grow(count * hidden_size);
  a.token_hidden.grow(count * size);
  a.returned.grow(count * hidden_size);
  const auto row = [hidden, hidden_size](std::size_t index, float*) -> const float* {
    return hidden + index * hidden_size;
  };
  const LinearOutput gate[] = {{&weights.gate, a.token_hidden.data(), size}};
  pass.apply_linears(gate, {kernels::RowSource(row), hidden_size, a.token_stream.data()}, rows);
  multiply_by_token_inputs(pass, a.token_hidden.data());
  const LinearOutput output[] = {{&weights.output, a.returned.data(), hidden_size}};
  pass.apply_linears(output, {a.token_hidden.data(), size}, rows);
  add_returned(pass, weights.post_norm, {}, count, hidden);
}

std::size_t forward_in_layout(const BlockPass& pass, float* hidden) {
  switch (pass.spec.layout) {
    case BlockLayout::kPreNorm:
      return forward_pre_norm(pass, hidden);
    case BlockLayout::kPostNorm:
      return forward_post_norm(pass, hidden);
    case BlockLayout::kOutputNorm:
      return forward_output_norm(pass, hidden);
    case BlockLayout::kParallel:
    case BlockLayout::kParallelShared:
      return forward_parallel(pass, hidden);
  }
  return 0;
}

// Merges inputs that both halves of a block recorded because both read them.
void merge_inputs(std::vector<LinearInput>& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (std::size_t j = inputs.size() - 1; j > i; --j) {
      if (inputs[j].rows != inputs[i].rows || inputs[j].count == 0 || inputs[i].count == 0) continue;
      inputs[i].readers.insert(inputs[i].readers.end(), inputs[j].readers.begin(), inputs[j].readers.end());
      inputs.erase(inputs.begin() + static_cast<std::ptrdiff_t>(j));
    }
  }
}

}  // namespace

RopeTable::RopeTable(const ModelSpec& spec) {
  for (const LayerSpec& layer : spec.layers) {
    of_layer_.emplace_back();
    if (layer.attention() == nullptr || !layer.attention()->rope) continue;
    const RopeSpec& rope = *layer.attention()->rope;
    const std::size_t offset = rotary_offset(layer);
    const auto known = std::ranges::find_if(
        rotations_, [&](const Rotation& other) { return other.spec == rope && other.offset == offset; });
    of_layer_.back() = static_cast<std::size_t>(known - rotations_.begin());
    if (known != rotations_.end()) continue;
    std::vector<double> frequencies = rope_frequencies(rope);
    kernels::KeyRotation keys(frequencies, rope.amplitude, offset);
    rotations_.push_back({rope, offset, std::move(frequencies), std::move(keys)});
  }
}

const AngleSet& RopeAngles::of_layer(std::size_t layer) const {
  static const AngleSet none;
  const std::optional<std::size_t> set = table_->of_layer_[layer];
  return set ? sets_[*set] : none;
}

void RopeTable::look_up(std::span<const BatchSequence> batch, RopeAngles& angles) const {
  const bool rolling = std::ranges::any_of(batch, [](const BatchSequence& s) { return s.state->cache().sinks() > 0; });
  angles.table_ = this;
  angles.sets_.resize(rotations_.size());
  for (std::size_t i = 0; i < rotations_.size(); ++i) {
    AngleSet& set = angles.sets_[i];
    set.rotation = &rotations_[i].keys;
    rotations_[i].fill(batch, false, set.cos, set.sin);
    set.slot_cos.clear();
    set.slot_sin.clear();
    if (rolling) rotations_[i].fill(batch, true, set.slot_cos, set.slot_sin);
  }
}

void RopeTable::Rotation::fill(std::span<const BatchSequence> batch, bool in_slots, std::vector<float>& cos,
                               std::vector<float>& sin) const {
  const std::size_t pairs = frequencies.size();
  cos.resize(count_tokens(batch) * pairs);
  sin.resize(cos.size());
  std::size_t first = 0;
  for (const BatchSequence& sequence : batch) {
    const std::size_t threads = kernels::threads_for(sequence.tokens * pairs * kOperationsOfAnAngle);
    kernels::parallel_ranges(sequence.tokens, threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        std::size_t position = sequence.state->position() + i;
        if (in_slots) position = sequence.state->cache().slot(position);
        for (std::size_t pair = 0; pair < pairs; ++pair) {
          const double angle = static_cast<double>(position) * frequencies[pair];
          cos[(first + i) * pairs + pair] = static_cast<float>(std::cos(angle) * spec.amplitude);
          sin[(first + i) * pairs + pair] = static_cast<float>(std::sin(angle) * spec.amplitude);
        }
      }
    });
    first += sequence.tokens;
  }
}

void forward_block(const ModelSpec& spec, const BlockWeights& block, std::size_t layer, const RopeAngles& angles,
                   std::span<const BatchSequence> batch, std::size_t state_layer, float* hidden,
                   BlockActivations& activations, const ForwardOptions& options) {
  count_rows(batch, activations);
  find_adapters(batch, layer, activations);
  const BlockPass pass = {.spec = spec,
                          .block = block,
                          .layer = spec.layers[layer],
                          .angles = angles.of_layer(layer),
                          .batch = batch,
                          .state_layer = state_layer,
                          .activations = activations,
                          .options = options,
                          .rows = StepRows(activations.row_ends, activations.adapters),
                          .wanted_rows = StepRows(activations.wanted_ends, activations.adapters),
                          .causal = spec.is_causal(layer)};
  const std::size_t size = pass.tokens * spec.hidden_size;
  activations.attention_input.grow(size);
  activations.mlp_input.grow(size);
  activations.inputs.clear();
  activations.routing = {};
  kernels::with_team([&] {
    const std::size_t left = forward_in_layout(pass, hidden);
    if (block.token_inputs && left > 0) add_token_inputs(pass, hidden);
    if (!block.stream_norm.gain.empty()) block.stream_norm.apply(hidden, left, hidden);
    if (block.scale == 1.0F) return;
    const std::size_t values = left * spec.hidden_size;
    kernels::parallel_ranges(values, kernels::threads_for(values), [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) hidden[i] *= block.scale;
    });
  });
  merge_inputs(activations.inputs);
}

}  // namespace ballast::model
