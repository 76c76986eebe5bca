#include <algorithm>
#include <utility>

#include "kernels/activation.h"
#include "model/forward/forward_parts.h"
#include "model/forward/routing.h"

namespace ballast::model {

namespace {

/// Rows for an MLP's last linear: activation(gate(x)) * up(x), or activation(up(x)) where there is no gate, made from
/// what the first linears wrote.
struct ActivatedRows {
  Activation activation;
  bool gated;
  std::size_t size;
  const float* hidden;
  const float* up;

  const float* operator()(std::size_t row, float* dst) const {
    const float* src = hidden + row * size;
    if (gated) {
      kernels::activate_multiply(activation, src, up + row * size, size, dst);
    } else {
      if (dst != src) std::copy_n(src, size, dst);
      kernels::activate(activation, dst, size);
    }
    return dst;
  }
};

/// An MLP's pass over `count` rows, with memory for what its first linears write.
struct MlpPass {
  const BlockPass& pass;
  const MlpWeights& mlp;
  float* hidden;  ///< [count][up's rows]
  float* up;      ///< the same; for what the gate multiplies

  bool gates_in_product() const { return mlp.gate && multiplied_by_gate(mlp.up, *mlp.gate); }

  /// What the first linears write: the gate and what it multiplies, or only that, multiplied.
  LinearOutputs first_outputs() const {
    const std::size_t size = mlp.up.rows();
    LinearOutputs outputs;
    if (gates_in_product()) {
      outputs.add({.linear = &mlp.up,
                   .dst = hidden,
                   .stride = size,
                   .gate = &*mlp.gate,
                   .activation = pass.layer.mlp.activation});
      return outputs;
    }
    if (mlp.gate) outputs.add({&*mlp.gate, hidden, size});
    outputs.add({&mlp.up, mlp.gate ? up : hidden, size});
    return outputs;
  }

  /// dst (+)= down(activated hidden), which becomes the place of the activated rows when they are wanted in memory.
  void apply_down(const LinearOutput& dst, std::size_t count, std::span<const std::size_t> row_tokens = {}) const {
    const std::size_t size = mlp.up.rows();
    if (gates_in_product()) return pass.apply_linears({&dst, 1}, {hidden, size}, count, row_tokens);
    const ActivatedRows activated = {pass.layer.mlp.activation, mlp.gate.has_value(), size, hidden, up};
    pass.apply_linears({&dst, 1}, {kernels::RowSource(activated), size, hidden}, count, row_tokens);
  }
};

void forward_plain(const BlockPass& pass, const MlpWeights& mlp, const LinearRows& input, float* hidden) {
  BlockActivations& a = pass.activations;
  a.mlp_hidden.grow(pass.tokens * mlp.up.rows());
  a.mlp_up.grow(pass.tokens * mlp.up.rows());
  const MlpPass own = {pass, mlp, a.mlp_hidden.data(), a.mlp_up.data()};
  pass.apply_linears(own.first_outputs().all(), input, pass.tokens);
  own.apply_down({&mlp.down, hidden, pass.spec.hidden_size, true}, pass.tokens);
}

/// Which tokens an expert gets, and with which weights.
struct Assignment {
  std::vector<std::size_t> tokens;
  std::vector<float> weights;
};

std::vector<Assignment> route(const BlockPass& pass, const ExpertWeights& routed) {
  const ExpertSpec& spec = *pass.layer.mlp.experts;
  std::vector<Assignment> assignments(spec.count);
  for (std::size_t token = 0; token < pass.tokens; ++token) {
    const std::span logits(pass.activations.router_logits.data() + token * spec.count, spec.count);
    for (const ExpertChoice& choice : choose_experts(spec, logits, routed.correction)) {
      assignments[choice.expert].tokens.push_back(token);
      assignments[choice.expert].weights.push_back(choice.weight);
    }
  }
  return assignments;
}

void forward_experts(const BlockPass& pass, const ExpertWeights& routed, const LinearRows& all_rows, float* hidden) {
  const ExpertSpec& spec = *pass.layer.mlp.experts;
  const std::size_t hidden_size = pass.spec.hidden_size;
  BlockActivations& a = pass.activations;
  const std::size_t rows = pass.tokens * spec.per_token;
  a.router_logits.grow(pass.tokens * spec.count);
  a.expert_input.grow(rows * hidden_size);
  a.expert_hidden.grow(rows * spec.size);
  a.expert_up.grow(rows * spec.size);
  a.expert_output.grow(rows * hidden_size);
  const float* input = all_rows.all(pass.tokens);  // each expert reads some of them
  const LinearOutput router[] = {{&routed.router, a.router_logits.data(), spec.count}};
  apply(router, {input, hidden_size}, pass.tokens, a.quantized);
  // An expert reads some of the rows that the router reads: one input for calibration.
  if (pass.options.record_inputs) {
    std::vector<const Linear*> readers = {&routed.router};
    for (const MlpWeights& expert : routed.experts) {
      if (expert.gate) readers.push_back(&*expert.gate);
      readers.push_back(&expert.up);
    }
    pass.record(std::move(readers), input, pass.tokens);
  }
  if (routed.shared) forward_plain(pass, *routed.shared, {input, hidden_size}, hidden);
  const std::vector<Assignment> assignments = route(pass, routed);
  std::size_t first = 0;
  for (std::size_t e = 0; e < spec.count; ++e) {
    const MlpWeights& expert = routed.experts[e];
    const Assignment& assignment = assignments[e];
    const std::size_t count = assignment.tokens.size();
    float* in = a.expert_input.data() + first * hidden_size;
    const MlpPass own = {pass, expert, a.expert_hidden.data() + first * spec.size,
                         a.expert_up.data() + first * spec.size};
    float* out = a.expert_output.data() + first * hidden_size;
    for (std::size_t i = 0; i < count; ++i) {
      std::copy_n(input + assignment.tokens[i] * hidden_size, hidden_size, in + i * hidden_size);
    }
    if (count > 0) apply(own.first_outputs().all(), {in, hidden_size}, count, a.quantized);
    own.apply_down({&expert.down, out, hidden_size}, count, assignment.tokens);
    for (std::size_t i = 0; i < count; ++i) {
      float* sum = hidden + assignment.tokens[i] * hidden_size;
      for (std::size_t c = 0; c < hidden_size; ++c) sum[c] += assignment.weights[i] * out[i * hidden_size + c];
    }
    first += count;
  }
}

}  // namespace

void forward_mlp(const BlockPass& pass, const LinearRows& input, float* hidden) {
  if (const auto* plain = std::get_if<MlpWeights>(&pass.block.mlp)) {
    forward_plain(pass, *plain, input, hidden);
  } else {
    forward_experts(pass, std::get<ExpertWeights>(pass.block.mlp), input, hidden);
  }
}

}  // namespace ballast::model
