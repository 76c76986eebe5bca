#include "model/mixer/head_attention.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

#include "kernels/activation.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/head_gates.h"
#include "kernels/norm.h"
#include "kernels/parallel.h"
#include "kernels/rope.h"
#include "model/mixer/attention_kinds.h"
#include "model/mixer/head_roles.h"
#include "model/mixer/sequence_state.h"

namespace ballast::model {

namespace {

void rotate(const LayerSpec& layer, const HeadRow& layout, float* rows, std::size_t tokens, std::size_t heads,
            std::size_t stride, const std::vector<float>& cos, const std::vector<float>& sin) {
  kernels::rope(rows + layout.rotary, tokens, heads, layout.cache.key_size, rotary_size(*layer.attention()), stride,
                cos.data(), sin.data());
}

/// Returns whether the sinks need queries of their own: in a rolling cache the first tokens keep their positions.
bool has_sink_queries(const BlockPass& pass) {
  return !pass.angles.slot_cos.empty();
}

/// Rotates queries and keys; in a rolling cache also the queries for the sinks.
void apply_rope(const BlockPass& pass, const HeadRow& layout) {
  const AttentionSpec& attention = *pass.layer.attention();
  if (!attention.rope) return;
  const AngleSet& angles = pass.angles;
  BlockActivations& a = pass.activations;
  float* rows = a.query_key_value.data();
  if (has_sink_queries(pass)) {
    a.sink_queries.grow(pass.tokens * layout.keys);
    for (std::size_t i = 0; i < pass.tokens; ++i) {
      std::copy_n(rows + i * layout.size, layout.keys, a.sink_queries.data() + i * layout.keys);
    }
    rotate(pass.layer, layout, a.sink_queries.data(), pass.tokens, layout.heads, layout.keys, angles.slot_cos,
           angles.slot_sin);
  }
  rotate(pass.layer, layout, rows, pass.tokens, layout.heads + layout.own_kv_heads, layout.size, angles.cos,
         angles.sin);
}

/// Multiplies each token's queries, `size` values of a row, by QueryGrowthSpec::factor of its position.
void scale_queries_by_position(const BlockPass& pass, float* rows, std::size_t size, std::size_t stride) {
  const QueryGrowthSpec& growth = *pass.layer.attention()->query_growth;
  for (const BatchSequence& sequence : pass.batch) {
    const std::size_t position = sequence.state->position();
    kernels::parallel_ranges(sequence.tokens, kernels::threads_for(sequence.tokens * size),
                             [&](std::size_t begin, std::size_t end) {
                               for (std::size_t i = begin; i < end; ++i) {
                                 const auto factor = static_cast<float>(growth.factor(position + i));
                                 if (factor == 1.0F) continue;
                                 float* query = rows + i * stride;
                                 for (std::size_t c = 0; c < size; ++c) query[c] *= factor;
                               }
                             });
    rows += sequence.tokens * stride;
  }
}

/// Returns the biases of all distances up to the spec's reach, [heads][2 * reach + 1], from those of its buckets,
/// [buckets][heads].
std::vector<float> biases_by_distance(const RelativeBiasSpec& spec, std::size_t heads, std::span<const float> buckets) {
  const auto reach = static_cast<std::int64_t>(spec.reach);
  std::vector<float> biases;
  for (std::size_t head = 0; head < heads; ++head) {
    for (std::int64_t distance = -reach; distance <= reach; ++distance) {
      biases.push_back(buckets[spec.bucket(distance) * heads + head]);
    }
  }
  return biases;
}

/// Returns ALiBi's slope of each head: powers of 2 with equal steps of the exponent down to -8. Where their number is
/// no power of 2, the heads beyond the next lower one have every other slope of twice as many.
std::vector<float> alibi_slopes(std::size_t heads) {
  const std::size_t first = std::bit_floor(heads);
  const double step = 8.0 / static_cast<double>(first);
  std::vector<float> slopes;
  for (std::size_t head = 0; head < heads; ++head) {
    const double steps = head < first ? static_cast<double>(head + 1) : static_cast<double>(head - first) + 0.5;
    slopes.push_back(static_cast<float>(std::exp2(-step * steps)));
  }
  return slopes;
}

/// Multiplies values [rows][heads][value_size] by the sigmoids of their gates: one for each value or for each head.
void apply_output_gate(const AttentionSpec& spec, const float* gates, std::size_t rows, float* values) {
  if (spec.head_gates) {
    kernels::multiply_head_sigmoid(values, rows, spec.heads, spec.value_size, gates, spec.heads);
  } else {
    kernels::multiply_sigmoid(values, rows, spec.gate_size(), gates, spec.gate_size());
  }
}

/// Excludes the folds that the output gate prevents, and adds to the reasons of the others why they pass it.
void add_gate(const AttentionSpec& attention, ValuePath& path) {
  path.bias = {false, attention.head_gates
                          ? "the output gate multiplies it, differently for every token"
                          : "the output gate multiplies it, by element and differently for every token"};
  if (path.scaling.legal) {
    path.scaling.reason = "attention and gate work channel by channel, the output projection takes the factor back";
  }
  if (!attention.head_gates) {
    path.rotation = {false, "the output gate multiplies each channel of a head by a factor of its own"};
  } else if (path.rotation.legal) {
    path.rotation.reason += "; the output gate multiplies all channels of a head by one factor";
  }
}

}  // namespace

ValuePath value_path_of_heads(const LayerSpec& layer) {
  const AttentionSpec& attention = *layer.attention();
  ValuePath path = {.value = Role::kValue,
                    .output = Role::kAttentionOutput,
                    .head_size = attention.value_size,
                    .sharing = attention.heads / attention.kv_heads,
                    .bias = {true, attention.kv_heads == attention.heads
                                       ? "a query's attention weights sum to 1"
                                       : "a query's attention weights sum to 1; it is repeated for the heads that "
                                         "share a value head"},
                    .scaling = {true,
                                "attention mixes tokens, not channels, and the output projection takes the "
                                "factor back"},
                    .rotation = {true,
                                 "attention mixes tokens, not channels, and the output projection turns each "
                                 "head back"}};
  if (attention.value_norm) {
    path.bias = {false, "the value norm follows"};
    path.scaling = {false, "the value norm, which follows, takes all channels of a head together"};
    path.rotation.reason += "; the value norm, without a gain, keeps only directions";
  }
  if (attention.values_are_keys) {
    constexpr const char* kShared = "the keys are made from it, too";
    path.value = Role::kKey;
    path.bias = path.scaling = path.rotation = {false, kShared};
  }
  if (attention.shares_keys) {
    path.bias = path.scaling = path.rotation = {false, "later layers read its values, too"};
  }
  if (attention.keys_of) {
    path.bias = path.scaling = path.rotation = {false, "its values are those of an earlier layer"};
  }
  if (attention.sink_logits) {
    path.bias = {false, "a query's attention weights sum to less than 1: the head's own logit has a part"};
  }
  if (attention.output_gate) add_gate(attention, path);
  return path;
}

HeadAttention::HeadAttention(const AttentionSpec& spec, const BlockParts& parts) {
  if (spec.query_key_norm) {
    query_norm_ = parts.norm(Role::kQueryNorm);
    if (!spec.keys_of) key_norm_ = parts.norm(Role::kKeyNorm);
  }
  if (spec.sink_logits) sink_logits_ = parts.vector(Role::kSinkLogits);
  if (spec.relative_bias) {
    distance_bias_ = biases_by_distance(*spec.relative_bias, spec.heads, parts.vector(Role::kRelativeBias));
    bias_reach_ = spec.relative_bias->reach;
  }
  if (spec.alibi) slopes_ = alibi_slopes(spec.heads);
  if (spec.output_gate) output_gate_ = parts.linear({Role::kOutputGate});
  output_ = parts.linear({Role::kAttentionOutput});
}

void HeadAttention::set_distance_scores(const AttentionSpec& spec, const BlockParts& parts, const Linear& query,
                                        const Linear& key) {
  std::vector<float> rows = parts.vector(Role::kDistanceRows);
  if (spec.disentangled->norm) {
    const Norm norm = {.kind = NormSpec::Kind::kLayer,
                       .epsilon = static_cast<float>(spec.disentangled->epsilon),
                       .gain = parts.vector(Role::kDistanceRowsGain),
                       .bias = parts.vector(Role::kDistanceRowsBias)};
    norm.apply(rows.data(), spec.disentangled->rows(), rows.data());
  }
  distance_scores_.emplace(spec, rows, query, key);
}

void HeadAttention::for_each_linear(const std::function<void(const Linear&, Role)>& visit) const {
  if (output_gate_) visit(*output_gate_, Role::kOutputGate);
  visit(output_, Role::kAttentionOutput);
}

void HeadAttention::add_output_gate(LinearOutputs& outputs, BlockActivations& activations) const {
  if (output_gate_) outputs.add({&*output_gate_, activations.output_gate.data(), output_gate_->rows()});
}

void HeadAttention::normalize_heads(const BlockPass& pass, const HeadRow& layout) const {
  const AttentionSpec& spec = *pass.layer.attention();
  const HeadNormSpec& heads_norm = *spec.query_key_norm;
  const auto normalize = [&](float* rows, std::size_t heads, std::size_t stride, const Norm& norm) {
    if (heads_norm.kind == HeadNormSpec::Kind::kLayer) {
      return kernels::layer_norm_heads(rows, pass.tokens, heads, spec.head_size, stride, norm.gain.data(),
                                       norm.epsilon);
    }
    // All heads together are normalized like one large head.
    const std::size_t size = norm.gain.size();
    kernels::rms_norm_heads(rows, pass.tokens, heads * spec.head_size / size, size, stride, norm.gain.data(),
                            norm.epsilon);
  };
  float* rows = pass.activations.query_key_value.data();
  normalize(rows, spec.heads, layout.size, query_norm_);
  if (layout.own_kv_heads > 0) normalize(rows + layout.keys, spec.kv_heads, layout.size, key_norm_);
  if (heads_norm.after_rotation && has_sink_queries(pass)) {
    normalize(pass.activations.sink_queries.data(), spec.heads, layout.keys, query_norm_);
  }
}

/// Applies norms, RoPE and scales to queries, keys and values, between their projections and the scores.
void HeadAttention::norm_and_rotate_heads(const BlockPass& pass, const HeadRow& layout) const {
  const AttentionSpec& spec = *pass.layer.attention();
  if (spec.value_norm && layout.own_kv_heads > 0) {
    kernels::rms_norm_heads(pass.activations.query_key_value.data() + layout.values, pass.tokens, spec.kv_heads,
                            spec.value_size, layout.size, nullptr, static_cast<float>(pass.spec.norm.epsilon));
  }
  if (spec.query_key_norm && !spec.query_key_norm->after_rotation) normalize_heads(pass, layout);
  apply_rope(pass, layout);
  if (spec.query_key_norm && spec.query_key_norm->after_rotation) normalize_heads(pass, layout);
  if (!spec.query_growth) return;
  scale_queries_by_position(pass, pass.activations.query_key_value.data(), layout.keys, layout.size);
  if (has_sink_queries(pass))
    scale_queries_by_position(pass, pass.activations.sink_queries.data(), layout.keys, layout.keys);
}

/// Appends the batch's keys and values to the sequences' caches. Each sequence is processed by one thread, unless one
/// sequence has most of the tokens: then sequences follow each other, and all threads process each.
void HeadAttention::append(const BlockPass& pass, const HeadRow& layout) const {
  constexpr std::size_t kOperationsOfAValue = 16;
  const kernels::KeyBias bias = key_bias(pass);
  const std::size_t pairs = bias.values == nullptr ? 0 : bias.rotation->pairs();
  const std::size_t longest = std::ranges::max(pass.batch, {}, &BatchSequence::tokens).tokens;
  const auto append_one = [&](std::size_t i) {
    const BatchSequence& sequence = pass.batch[i];
    const std::size_t first_row = pass.rows.first_of(i);
    const float* rows = pass.activations.query_key_value.data() + first_row * layout.size;
    sequence.state->cache().append(pass.state_layer, rows + layout.keys, layout.size, rows + layout.values, layout.size,
                                   sequence.tokens, sequence.fp16_tokens,
                                   {.bias = bias,
                                    .cos = pass.angles.cos.data() + first_row * pairs,
                                    .sin = pass.angles.sin.data() + first_row * pairs});
  };
  const std::size_t values = layout.size - layout.keys;
  const std::size_t threads = kernels::threads_for(pass.tokens * values * kOperationsOfAValue);
  if (longest * threads > pass.tokens) {
    for (std::size_t i = 0; i < pass.batch.size(); ++i) append_one(i);
    return;
  }
  kernels::TaskFailure failure;
  kernels::parallel_tasks(pass.batch.size(), threads,
                          [&](std::size_t i, std::size_t) { failure.keep(i, [&] { append_one(i); }); });
  failure.rethrow();
}

/// Computes attention and returns how many rows of attention_output it wrote.
std::size_t HeadAttention::attend(const BlockPass& pass, const HeadRow& layout) const {
  const AttentionSpec& spec = *pass.layer.attention();
  BlockActivations& a = pass.activations;
  if (pass.options.first_token_share) a.first_token_share.assign(pass.batch.size() * spec.heads, 0.0);

  kernels::AttentionShape shape = {.heads = layout.heads,
                                   .kv_heads = layout.cache.kv_heads,
                                   .head_size = layout.cache.key_size,
                                   .scale = static_cast<float>(spec.scale),
                                   .value_size = layout.cache.value_size,
                                   .causal = is_causal(pass),
                                   .score_cap = static_cast<float>(spec.score_cap),
                                   .sink_logits = sink_logits_.empty() ? nullptr : sink_logits_.data()};
  if (!distance_bias_.empty()) shape.distance_bias = {.values = distance_bias_.data(), .reach = bias_reach_};
  if (!slopes_.empty()) shape.slopes = slopes_.data();
  std::vector<kernels::AttentionSequence>& sequences = a.attention_sequences;
  sequences.clear();
  const kernels::KeyBias bias = key_bias(pass);
  const float* score_bias = nullptr;
  if (distance_scores_) {
    const float* rows = a.query_key_value.data();
    score_bias = distance_scores_->compute({rows, rows + layout.keys, layout.size}, pass.batch, a);
  }
  std::size_t written = 0;
  for (std::size_t i = 0; i < pass.batch.size(); ++i) {
    const BatchSequence& sequence = pass.batch[i];
    const std::size_t first_row = pass.rows.first_of(i);
    float* rows = a.query_key_value.data() + first_row * layout.size;
    const KeyValueCache& cache = sequence.state->cache();
    const std::size_t left_out = pass.options.wanted_only ? sequence.tokens - sequence.wanted : 0;
    kernels::AttentionSequence entry;
    entry.q = rows + left_out * layout.size;
    entry.q_stride = layout.size;
    entry.queries = sequence.tokens - left_out;
    entry.kv = keys_of(pass, sequence);
    entry.kv.key_bias = bias;
    entry.out = a.attention_output.data() + written * layout.heads * layout.cache.value_size;
    entry.window = narrower_window(spec.window, cache.window());
    entry.sinks = cache.sinks();
    if (score_bias != nullptr) {
      assert(entry.kv.length == sequence.tokens);  // an encoder's sequences run whole
      entry.score_bias = score_bias + left_out * sequence.tokens;
      entry.score_bias_stride = sequence.tokens * sequence.tokens;
      score_bias += layout.heads * sequence.tokens * sequence.tokens;
    }
    if (pass.options.first_token_share) {
      entry.first_token_share = a.first_token_share.data() + sequences.size() * spec.heads;
    }
    if (entry.sinks != 0 && has_sink_queries(pass)) {
      entry.sink_q = a.sink_queries.data() + (first_row + left_out) * layout.keys;
      entry.sink_q_stride = layout.keys;
    }
    if (entry.queries > 0) sequences.push_back(entry);
    written += entry.queries;
  }
  kernels::attention(shape, sequences);
  return written;
}

std::size_t HeadAttention::forward(const BlockPass& pass, const LinearRows& input, float* hidden) const {
  const AttentionSpec& spec = *pass.layer.attention();
  const std::size_t width = spec.heads * spec.value_size;
  BlockActivations& a = pass.activations;
  const HeadRow layout = row_of(pass.layer);
  a.query_key_value.grow(pass.tokens * layout.size);
  a.attention_output.grow(pass.tokens * layout.heads * layout.cache.value_size);
  if (output_gate_) a.output_gate.grow(pass.tokens * spec.gate_size());

  project(pass, layout, input);
  norm_and_rotate_heads(pass, layout);
  a.keys = a.values = {};
  if (layout.own_kv_heads > 0) {
    a.keys = {a.query_key_value.data() + layout.keys, layout.size};
    a.values = {a.query_key_value.data() + layout.values, layout.size};
    append(pass, layout);
  }
  const std::size_t left = attend(pass, layout);
  if (left == 0) return 0;
  if (pass.options.wanted_only) {
    keep_wanted_rows(pass.batch, pass.spec.hidden_size, hidden);
    if (output_gate_) keep_wanted_rows(pass.batch, spec.gate_size(), a.output_gate.data());
  }
  float* values = values_of_heads(pass, left);
  if (output_gate_) apply_output_gate(spec, a.output_gate.data(), left, values);
  const LinearOutput output[] = {{&output_, hidden, pass.spec.hidden_size, true}};
  pass.apply_linears(output, {values, width}, pass.rows_after_mixer());
  return left;
}

kernels::KeyValueView HeadAttention::keys_of(const BlockPass& pass, const BatchSequence& sequence) const {
  return sequence.state->cache().view(pass.state_layer, sequence.tokens);
}

float* HeadAttention::values_of_heads(const BlockPass& pass, std::size_t /*rows*/) const {
  return pass.activations.attention_output.data();
}

}  // namespace ballast::model
