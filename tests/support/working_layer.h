// A transformer block as passes see it, and its outputs in F64: for checking that a pass does not change the function.
#ifndef BALLAST_TESTS_SUPPORT_WORKING_LAYER_H_
#define BALLAST_TESTS_SUPPORT_WORKING_LAYER_H_

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "layers.h"
#include "model/structure/block_structure.h"
#include "quant/block/working_block.h"
#include "reference/attention.h"

namespace ballast::test {

inline ModelSpec small_spec() {
  ModelSpec spec;
  spec.architecture = "llama";
  spec.hidden_size = 12;
  spec.vocab_size = 20;
  const AttentionSpec attention = {.heads = 4,
                                   .kv_heads = 2,
                                   .head_size = 8,
                                   .value_size = 8,
                                   .scale = 1 / std::sqrt(8.0),
                                   .rope = RopeSpec{.rotary_size = 8}};
  spec.layers = {{.mixer = attention, .mlp = {.size = 10}}};
  return spec;
}

/// Returns the spec of a block like GPT-2's.
inline ModelSpec small_layer_norm_spec() {
  ModelSpec spec = small_spec();
  spec.norm = {.kind = NormSpec::Kind::kLayer, .epsilon = 1e-6, .bias = true};
  spec.learned_positions = true;
  attention_of(spec).rope.reset();
  mlp_of(spec).gated = false;
  spec.biases = {.query = true, .key = true, .value = true, .attention_output = true, .up = true, .down = true};
  return spec;
}

inline std::vector<float> floats(const Vector& values) {
  return {values.begin(), values.end()};
}

/// Returns all linears and norms of a block of this spec with random values, and biases if the spec has them.
inline quant::WorkingBlock random_layer(const ModelSpec& spec, Random& random) {
  quant::WorkingBlock block;
  block.layer = 0;
  std::vector<model::Role> norms;
  for (const model::Role role : model::block_norms(spec, 0)) {
    const std::size_t size = model::matrix_shape(spec, 0, role).second;
    quant::WorkingNorm& norm = block.norms.emplace_back();
    norm.role = role;
    norm.gain = floats(random.vector(size, 0.2, 3));
    if (model::norm_spec(spec, 0, role).bias) norm.bias = floats(random.vector(size));
    norms.push_back(role);
  }
  for (const model::BlockInput& input : model::block_inputs(spec, 0)) {
    quant::WorkingInput& working = block.inputs.emplace_back();
    if (input.norm) {
      working.norm = static_cast<std::size_t>(std::ranges::find(norms, *input.norm) - norms.begin());
    }
    for (const model::Part& part : input.readers) {
      working.readers.push_back(block.linears.size());
      quant::WorkingLinear& linear = block.linears.emplace_back();
      linear.part = part;
      linear.name = "linear" + std::to_string(block.linears.size());
      std::tie(linear.rows, linear.cols) = model::matrix_shape(spec, 0, part.role);
      linear.values = floats(random.vector(linear.rows * linear.cols));
      if (model::has_bias(spec, 0, part.role)) linear.bias = floats(random.vector(linear.rows));
      linear.absmax = 1;
    }
  }
  return block;
}

inline Vector doubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

inline Matrix matrix_of(const quant::WorkingLinear& linear) {
  return {linear.rows, linear.cols, doubles(linear.values)};
}

inline Vector output_of(const quant::WorkingLinear& linear, const Vector& x) {
  return affine(matrix_of(linear), x, doubles(linear.bias));
}

inline Vector normalized(const ModelSpec& spec, const quant::WorkingNorm& norm, const Vector& x) {
  const Vector y = spec.norm.kind == NormSpec::Kind::kLayer ? layer_normalized(x) : rms_normalized(x);
  const Vector scaled = times(y, doubles(norm.gain));
  return norm.bias.empty() ? scaled : plus(scaled, doubles(norm.bias));
}

inline double activated(Activation activation, double x) {
  if (activation == Activation::kRelu) return std::max(0.0, x);
  return x / (1 + std::exp(-x));
}

/// The block's inputs, and its additions to the residual stream.
struct LayerValues {
  Tokens attention_input, attention_mixed, mlp_input, mlp_hidden, attention_output, mlp_output;
};

/// Runs attention and MLP in parallel on the same residual stream. Precondition: no latent attention, no experts.
inline LayerValues run_layer(const ModelSpec& spec, quant::WorkingBlock block, const Tokens& residual) {
  using model::Role;
  LayerValues values;
  const quant::WorkingNorm* attention_norm = nullptr;
  const quant::WorkingNorm* mlp_norm = nullptr;
  const AttentionSpec& sizes = attention_of(spec);
  const MlpSpec& mlp = mlp_of(spec);
  Attention attention{.heads = sizes.heads,
                      .kv_heads = sizes.kv_heads,
                      .head_size = sizes.head_size,
                      .rotary_size = sizes.rope ? sizes.rope->rotary_size : 0,
                      .query_key_norm = sizes.query_key_norm.has_value()};
  for (const quant::WorkingNorm& norm : block.norms) {
    if (norm.role == Role::kAttentionNorm) attention_norm = &norm;
    if (norm.role == Role::kMlpNorm) mlp_norm = &norm;
    if (norm.role == Role::kQueryNorm) attention.query_gain = doubles(norm.gain);
    if (norm.role == Role::kKeyNorm) attention.key_gain = doubles(norm.gain);
  }
  if (mlp_norm == nullptr) mlp_norm = attention_norm;
  attention.query = matrix_of(*block.find(Role::kQuery));
  attention.key = matrix_of(*block.find(Role::kKey));
  attention.value = matrix_of(*block.find(Role::kValue));
  attention.query_bias = doubles(block.find(Role::kQuery)->bias);
  attention.key_bias = doubles(block.find(Role::kKey)->bias);
  attention.value_bias = doubles(block.find(Role::kValue)->bias);
  if (const quant::WorkingLinear* gate = block.find(Role::kOutputGate)) {
    attention.gated = true;
    attention.head_gates = sizes.head_gates;
    attention.gate_weights = matrix_of(*gate);
    attention.gate_bias = doubles(gate->bias);
  }
  for (const Vector& x : residual) {
    values.attention_input.push_back(normalized(spec, *attention_norm, x));
    values.mlp_input.push_back(normalized(spec, *mlp_norm, x));
  }
  values.attention_mixed = mix(attention, values.attention_input);
  for (const Vector& mixed : values.attention_mixed) {
    values.attention_output.push_back(output_of(*block.find(Role::kAttentionOutput), mixed));
  }
  for (const Vector& input : values.mlp_input) {
    Vector hidden = output_of(*block.find(Role::kUp), input);
    const Vector gate = mlp.gated ? output_of(*block.find(Role::kGate), input) : hidden;
    for (std::size_t i = 0; i < hidden.size(); ++i) {
      hidden[i] = activated(mlp.activation, gate[i]) * (mlp.gated ? hidden[i] : 1.0);
    }
    values.mlp_output.push_back(output_of(*block.find(Role::kDown), hidden));
    values.mlp_hidden.push_back(std::move(hidden));
  }
  return values;
}

inline ChannelStatistics channel_statistics(const Tokens& tokens) {
  ChannelStatistics statistics;
  for (std::size_t c = 0; c < tokens.front().size(); ++c) {
    double low = tokens.front()[c];
    double high = low;
    double sum = 0;
    double squares = 0;
    for (const Vector& token : tokens) {
      low = std::min(low, token[c]);
      high = std::max(high, token[c]);
      sum += token[c];
      squares += token[c] * token[c];
    }
    const auto count = static_cast<double>(tokens.size());
    statistics.min.push_back(static_cast<float>(low));
    statistics.max.push_back(static_cast<float>(high));
    statistics.mean.push_back(static_cast<float>(sum / count));
    statistics.mean_square.push_back(static_cast<float>(squares / count));
    statistics.ordinary_absmax.push_back(static_cast<float>(std::max(std::abs(low), std::abs(high))));
  }
  return statistics;
}

/// Sets the statistics of every input of the block, as calibration on `residual` would measure them.
inline void measure(const ModelSpec& spec, quant::WorkingBlock& block, const Tokens& residual) {
  using model::Role;
  const LayerValues values = run_layer(spec, block, residual);
  for (quant::WorkingInput& input : block.inputs) {
    const Role reader = block.linears[input.readers.front()].part.role;
    const Tokens& tokens = reader == Role::kAttentionOutput ? values.attention_mixed
                           : reader == Role::kDown          ? values.mlp_hidden
                           : reader == Role::kQuery         ? values.attention_input
                                                            : values.mlp_input;
    input.statistics = LinearInputStatistics{.linears = {}, .channels = channel_statistics(tokens)};
  }
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_WORKING_LAYER_H_
