#include <algorithm>

#include "kernels/activation.h"
#include "kernels/attention/attention.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "model/block_structure.h"
#include "model/forward/forward_parts.h"

namespace ballast::model {

namespace {

/// Places in a row of queries, keys and values.
struct RowLayout {
  explicit RowLayout(const ModelSpec& spec)
      : keys(spec.heads * spec.head_size),
        values(keys + spec.kv_heads * spec.head_size),
        size(values + spec.kv_heads * spec.value_size) {}

  std::size_t keys;
  std::size_t values;
  std::size_t size;
};

/// Queries, keys and values of plain attention, and the output gate.
void project(const BlockPass& pass, const RowLayout& layout, const LinearRows& input) {
  const BlockWeights& block = pass.block;
  BlockActivations& a = pass.activations;
  float* row = a.query_key_value.data();
  LinearOutputs outputs;
  outputs.add({&block.query, row, layout.size});
  outputs.add({&block.key, row + layout.keys, layout.size});
  outputs.add({&block.value, row + layout.values, layout.size});
  if (block.output_gate) outputs.add({&*block.output_gate, a.output_gate.data(), block.output_gate->rows()});
  pass.apply_linears(outputs.all(), input, pass.tokens);
}

/// The same through the latent vectors. Keys are put together from their plain and their common rotated part, which is
/// rotated later, in every head.
void project_latent(const BlockPass& pass, const RowLayout& layout, const LinearRows& input) {
  const ModelSpec& spec = pass.spec;
  const BlockWeights& block = pass.block;
  const LatentWeights& latent = *block.latent;
  BlockActivations& a = pass.activations;
  const std::size_t m = pass.tokens;
  const std::size_t rotary = spec.rope.rotary_size;
  const std::size_t plain = spec.head_size - rotary;
  const std::size_t rank = spec.latent->key_value_rank;
  grow(a.query_latent, m * spec.latent->query_rank);
  grow(a.key_value_latent, m * rank);
  grow(a.key_position, m * rotary);
  grow(a.plain_keys, m * spec.kv_heads * plain);
  float* row = a.query_key_value.data();

  LinearOutputs down;
  if (latent.query_down) {
    down.add({&*latent.query_down, a.query_latent.data(), spec.latent->query_rank});
  } else {
    down.add({&block.query, row, layout.size});
  }
  down.add({&latent.key_value_down, a.key_value_latent.data(), rank});
  down.add({&latent.key_position, a.key_position.data(), rotary});
  if (block.output_gate) down.add({&*block.output_gate, a.output_gate.data(), block.output_gate->rows()});
  pass.apply_linears(down.all(), input, m);

  if (latent.query_down) {
    latent.query_down_norm.apply(a.query_latent.data(), m, a.query_latent.data());
    const LinearOutput query[] = {{&block.query, row, layout.size}};
    pass.apply_linears(query, {a.query_latent.data(), spec.latent->query_rank}, m);
  }
  latent.key_value_down_norm.apply(a.key_value_latent.data(), m, a.key_value_latent.data());
  const LinearOutput up[] = {{&block.key, a.plain_keys.data(), spec.kv_heads * plain},
                             {&block.value, row + layout.values, layout.size}};
  pass.apply_linears(up, {a.key_value_latent.data(), rank}, m);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t head = 0; head < spec.kv_heads; ++head) {
      float* key = row + i * layout.size + layout.keys + head * spec.head_size;
      std::copy_n(a.plain_keys.data() + (i * spec.kv_heads + head) * plain, plain, key);
      std::copy_n(a.key_position.data() + i * rotary, rotary, key + plain);
    }
  }
}

void rotate(const ModelSpec& spec, float* rows, std::size_t tokens, std::size_t heads, std::size_t stride,
            const std::vector<float>& cos, const std::vector<float>& sin) {
  kernels::rope(rows + rotary_offset(spec), tokens, heads, spec.head_size, spec.rope.rotary_size, stride, cos.data(),
                sin.data());
}

/// Rotates queries and keys; in a rolling cache the sinks meet queries of their own.
void apply_rope(const BlockPass& pass, const RowLayout& layout) {
  if (pass.spec.positions != PositionKind::kRope) return;
  const RopeAngles& angles = pass.angles;
  BlockActivations& a = pass.activations;
  float* rows = a.query_key_value.data();
  if (!angles.slot_cos.empty()) {
    grow(a.sink_queries, pass.tokens * layout.keys);
    for (std::size_t i = 0; i < pass.tokens; ++i) {
      std::copy_n(rows + i * layout.size, layout.keys, a.sink_queries.data() + i * layout.keys);
    }
    rotate(pass.spec, a.sink_queries.data(), pass.tokens, pass.spec.heads, layout.keys, angles.slot_cos,
           angles.slot_sin);
  }
  rotate(pass.spec, rows, pass.tokens, pass.spec.heads + pass.spec.kv_heads, layout.size, angles.cos, angles.sin);
}

/// What every key has in common but for its rotation, which INT8 caches leave out.
kernels::KeyBias key_bias(const BlockPass& pass) {
  const ModelSpec& spec = pass.spec;
  const bool added_last = !spec.latent && !spec.query_key_norm && spec.positions == PositionKind::kRope;
  if (!added_last || pass.block.key.bias.empty()) return {};
  return {.values = pass.block.key.bias.data(), .rotation = pass.angles.rotation};
}

/// Moves the rows of each sequence's wanted tokens to the front.
void keep_wanted_rows(std::span<const BatchSequence> batch, std::size_t row_size, float* rows) {
  float* to = rows;
  const float* end = rows;
  for (const BatchSequence& sequence : batch) {
    end += sequence.tokens * row_size;
    const std::size_t count = sequence.wanted * row_size;
    if (end - count != to) std::copy_n(end - count, count, to);  // towards the front: they may overlap
    to += count;
  }
}

/// Returns how many rows of attention_output it wrote.
std::size_t attend(const BlockPass& pass, const RowLayout& layout) {
  const ModelSpec& spec = pass.spec;
  BlockActivations& a = pass.activations;
  if (pass.options.first_token_share) a.first_token_share.assign(pass.batch.size() * spec.heads, 0.0);

  // All sequences of a batch have caches of one kind.
  const KeyValueCache& kind = *pass.batch.front().cache;
  const std::size_t own_window = spec.window(pass.layer);
  const std::size_t window = kind.window() == 0 ? own_window
                             : own_window == 0  ? kind.window()
                                                : std::min(kind.window(), own_window);
  const kernels::AttentionShape shape = {.heads = spec.heads,
                                         .kv_heads = spec.kv_heads,
                                         .head_size = spec.head_size,
                                         .scale = static_cast<float>(spec.attention_scale),
                                         .value_size = spec.value_size,
                                         .causal = spec.causal,
                                         .window = window,
                                         .sinks = kind.sinks()};
  std::vector<kernels::AttentionSequence>& sequences = a.attention_sequences;
  sequences.clear();
  std::size_t first_row = 0;
  std::size_t written = 0;
  for (const BatchSequence& sequence : pass.batch) {
    float* rows = a.query_key_value.data() + first_row * layout.size;
    const kernels::KeyBias bias = key_bias(pass);
    const std::size_t pairs = bias.values == nullptr ? 0 : bias.rotation->pairs();
    sequence.cache->append(pass.cache_layer, rows + layout.keys, layout.size, rows + layout.values, layout.size,
                           sequence.tokens, sequence.fp16_tokens,
                           {.bias = bias,
                            .cos = pass.angles.cos.data() + first_row * pairs,
                            .sin = pass.angles.sin.data() + first_row * pairs});
    const std::size_t left_out = pass.options.wanted_only ? sequence.tokens - sequence.wanted : 0;
    kernels::AttentionSequence entry;
    entry.q = rows + left_out * layout.size;
    entry.q_stride = layout.size;
    entry.queries = sequence.tokens - left_out;
    entry.kv = sequence.cache->view(pass.cache_layer, sequence.tokens);
    entry.kv.key_bias = bias;
    entry.out = a.attention_output.data() + written * spec.heads * spec.value_size;
    if (pass.options.first_token_share) {
      entry.first_token_share = a.first_token_share.data() + sequences.size() * spec.heads;
    }
    if (!pass.angles.slot_cos.empty()) {
      entry.sink_q = a.sink_queries.data() + (first_row + left_out) * layout.keys;
      entry.sink_q_stride = layout.keys;
    }
    if (entry.queries > 0) sequences.push_back(entry);
    first_row += sequence.tokens;
    written += entry.queries;
  }
  kernels::attention(shape, sequences);
  return written;
}

}  // namespace

std::size_t forward_attention(const BlockPass& pass, const LinearRows& input, float* hidden) {
  const ModelSpec& spec = pass.spec;
  const BlockWeights& block = pass.block;
  BlockActivations& a = pass.activations;
  const RowLayout layout(spec);
  const std::size_t m = pass.tokens;
  grow(a.query_key_value, m * layout.size);
  grow(a.attention_output, m * spec.heads * spec.value_size);
  if (block.output_gate) grow(a.output_gate, m * block.output_gate->rows());
  float* rows = a.query_key_value.data();

  if (spec.latent) {
    project_latent(pass, layout, input);
  } else {
    project(pass, layout, input);
  }
  if (spec.query_key_norm) {
    kernels::rms_norm_heads(rows, m, spec.heads, spec.head_size, layout.size, block.query_norm.gain.data(),
                            block.query_norm.epsilon);
    kernels::rms_norm_heads(rows + layout.keys, m, spec.kv_heads, spec.head_size, layout.size,
                            block.key_norm.gain.data(), block.key_norm.epsilon);
  }
  apply_rope(pass, layout);
  a.keys = {rows + layout.keys, layout.size};
  a.values = {rows + layout.values, layout.size};
  const std::size_t left = attend(pass, layout);
  if (left == 0) return 0;
  if (pass.options.wanted_only) {
    keep_wanted_rows(pass.batch, spec.hidden_size, hidden);
    if (block.output_gate) keep_wanted_rows(pass.batch, block.output_gate->rows(), a.output_gate.data());
  }
  if (spec.output_gate == OutputGate::kPerElement) {
    kernels::multiply_sigmoid(a.attention_output.data(), left, spec.heads * spec.value_size, a.output_gate.data(),
                              spec.heads * spec.value_size);
  } else if (spec.output_gate == OutputGate::kPerHead) {
    kernels::multiply_sigmoid_heads(a.attention_output.data(), left, spec.heads, spec.value_size, a.output_gate.data(),
                                    spec.heads);
  }
  const LinearOutput output[] = {{&block.attention_output, hidden, spec.hidden_size, true}};
  pass.apply_linears(output, {a.attention_output.data(), spec.heads * spec.value_size}, left);
  return left;
}

}  // namespace ballast::model
