#include "model/forward.h"

#include <cmath>

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "model/arch/rope_config.h"

namespace ballast::model {

namespace {

std::size_t count_tokens(std::span<const BatchSequence> batch) {
  std::size_t tokens = 0;
  for (const BatchSequence& sequence : batch) tokens += sequence.tokens;
  return tokens;
}

void grow(std::vector<float>& buffer, std::size_t size) {
  if (buffer.size() < size) buffer.resize(size);
}

void attend(const ModelSpec& spec, std::span<const BatchSequence> batch, std::size_t cache_layer,
            BlockActivations& activations, const ForwardOptions& options) {
  const std::size_t queries = spec.heads * spec.head_size;
  const std::size_t keys = spec.kv_heads * spec.head_size;
  if (options.first_token_share) activations.first_token_share.assign(batch.size() * spec.heads, 0.0);

  std::vector<kernels::AttentionSequence> sequences;
  sequences.reserve(batch.size());
  std::size_t first_row = 0;
  for (const BatchSequence& sequence : batch) {
    float* rows = activations.query_key_value.data() + first_row * activations.row_size;
    sequence.cache->append(cache_layer, rows + queries, rows + queries + keys, activations.row_size, sequence.tokens);
    sequences.push_back({.q = rows,
                         .q_stride = activations.row_size,
                         .queries = sequence.tokens,
                         .kv = sequence.cache->view(cache_layer, sequence.tokens),
                         .out = activations.attention_output.data() + first_row * queries,
                         .first_token_share = options.first_token_share
                                                  ? activations.first_token_share.data() + sequences.size() * spec.heads
                                                  : nullptr});
    first_row += sequence.tokens;
  }
  const kernels::AttentionShape shape = {.heads = spec.heads,
                                         .kv_heads = spec.kv_heads,
                                         .head_size = spec.head_size,
                                         .scale = 1.0F / std::sqrt(static_cast<float>(spec.head_size))};
  kernels::attention(shape, sequences);
}

}  // namespace

RopeTable::RopeTable(const ModelSpec& spec) {
  for (const double frequency : rope_frequencies(spec.rope, spec.head_size)) {
    frequencies_.push_back(static_cast<float>(frequency));
  }
}

void RopeTable::look_up(std::span<const BatchSequence> batch, std::vector<float>& cos, std::vector<float>& sin) const {
  const std::size_t size = count_tokens(batch) * frequencies_.size();
  grow(cos, size);
  grow(sin, size);
  std::size_t at = 0;
  for (const BatchSequence& sequence : batch) {
    for (std::size_t i = 0; i < sequence.tokens; ++i) {
      const auto position = static_cast<float>(sequence.cache->length() + i);
      for (const float frequency : frequencies_) {
        const float angle = position * frequency;  // in F32, as transformers computes it
        cos[at] = std::cos(angle);
        sin[at] = std::sin(angle);
        ++at;
      }
    }
  }
}

void forward_block(const ModelSpec& spec, const BlockWeights& block, const RopeTable& rope,
                   std::span<const BatchSequence> batch, std::size_t cache_layer, float* hidden,
                   BlockActivations& activations, const ForwardOptions& options) {
  const std::size_t m = count_tokens(batch);
  const std::size_t queries = spec.heads * spec.head_size;
  const std::size_t keys = spec.kv_heads * spec.head_size;
  const auto epsilon = static_cast<float>(spec.norm_epsilon);
  activations.row_size = queries + 2 * keys;
  grow(activations.attention_input, m * spec.hidden_size);
  grow(activations.query_key_value, m * activations.row_size);
  grow(activations.attention_output, m * queries);
  grow(activations.mlp_input, m * spec.hidden_size);
  grow(activations.mlp_hidden, m * spec.mlp_size);
  grow(activations.up, m * spec.mlp_size);
  grow(activations.projected, m * spec.hidden_size);

  kernels::rms_norm(hidden, m, spec.hidden_size, block.attention_norm.data(), epsilon,
                    activations.attention_input.data());
  float* q = activations.query_key_value.data();
  const LinearOutput attention_in[] = {{&block.query, q, activations.row_size},
                                       {&block.key, q + queries, activations.row_size},
                                       {&block.value, q + queries + keys, activations.row_size}};
  apply(attention_in, activations.attention_input.data(), m, activations.quantized);
  rope.look_up(batch, activations.cos, activations.sin);
  kernels::rope(q, m, spec.heads + spec.kv_heads, spec.head_size, activations.row_size, activations.cos.data(),
                activations.sin.data());
  attend(spec, batch, cache_layer, activations, options);
  const LinearOutput attention_out[] = {{&block.attention_output, activations.projected.data(), spec.hidden_size}};
  apply(attention_out, activations.attention_output.data(), m, activations.quantized);
  kernels::add(activations.projected.data(), m * spec.hidden_size, hidden);

  kernels::rms_norm(hidden, m, spec.hidden_size, block.mlp_norm.data(), epsilon, activations.mlp_input.data());
  const LinearOutput mlp_in[] = {{&block.gate, activations.mlp_hidden.data(), spec.mlp_size},
                                 {&block.up, activations.up.data(), spec.mlp_size}};
  apply(mlp_in, activations.mlp_input.data(), m, activations.quantized);
  kernels::silu_multiply(activations.mlp_hidden.data(), activations.up.data(), m * spec.mlp_size,
                         activations.mlp_hidden.data());
  const LinearOutput mlp_out[] = {{&block.down, activations.projected.data(), spec.hidden_size}};
  apply(mlp_out, activations.mlp_hidden.data(), m, activations.quantized);
  kernels::add(activations.projected.data(), m * spec.hidden_size, hidden);
}

}  // namespace ballast::model
