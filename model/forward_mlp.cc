#include <algorithm>
#include <utility>

#include "kernels/activation.h"
#include "kernels/elementwise.h"
#include "model/forward_parts.h"
#include "model/routing.h"

namespace ballast::model {

namespace {

/// hidden [count][size] = activation(gate(x)) * up(x), or activation(up(x)) where there is no gate.
void activate(const ModelSpec& spec, const MlpWeights& mlp, std::size_t count, float* hidden, const float* up) {
  const std::size_t size = count * mlp.up.rows();
  if (mlp.gate) {
    kernels::activate_multiply(spec.activation, hidden, up, size, hidden);
  } else {
    kernels::activate(spec.activation, hidden, size);
  }
}

/// The outputs that an MLP's first linears write.
std::vector<LinearOutput> first_outputs(const MlpWeights& mlp, float* hidden, float* up) {
  if (mlp.gate) return {{&*mlp.gate, hidden, mlp.up.rows()}, {&mlp.up, up, mlp.up.rows()}};
  return {{&mlp.up, hidden, mlp.up.rows()}};
}

void forward_plain(const BlockPass& pass, const MlpWeights& mlp, const float* input, float* dst) {
  BlockActivations& a = pass.activations;
  grow(a.mlp_hidden, pass.tokens * mlp.up.rows());
  grow(a.mlp_up, pass.tokens * mlp.up.rows());
  pass.apply_linears(first_outputs(mlp, a.mlp_hidden.data(), a.mlp_up.data()), input, pass.tokens);
  activate(pass.spec, mlp, pass.tokens, a.mlp_hidden.data(), a.mlp_up.data());
  const LinearOutput down[] = {{&mlp.down, dst, pass.spec.hidden_size}};
  pass.apply_linears(down, a.mlp_hidden.data(), pass.tokens);
}

/// Which tokens an expert gets, and with which weights.
struct Assignment {
  std::vector<std::size_t> tokens;
  std::vector<float> weights;
};

std::vector<Assignment> route(const BlockPass& pass, const ExpertWeights& routed) {
  const ExpertSpec& spec = *pass.spec.experts;
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

void forward_experts(const BlockPass& pass, const ExpertWeights& routed, const float* input, float* dst) {
  const ExpertSpec& spec = *pass.spec.experts;
  const std::size_t hidden_size = pass.spec.hidden_size;
  BlockActivations& a = pass.activations;
  const std::size_t rows = pass.tokens * spec.per_token;
  grow(a.router_logits, pass.tokens * spec.count);
  grow(a.expert_input, rows * hidden_size);
  grow(a.expert_hidden, rows * spec.size);
  grow(a.expert_up, rows * spec.size);
  grow(a.expert_output, rows * hidden_size);
  const LinearOutput router[] = {{&routed.router, a.router_logits.data(), spec.count}};
  apply(router, input, pass.tokens, a.quantized);
  // An expert reads some of the rows that the router reads: one input for calibration.
  if (pass.options.record_inputs) {
    std::vector<const Linear*> readers = {&routed.router};
    for (const MlpWeights& expert : routed.experts) {
      if (expert.gate) readers.push_back(&*expert.gate);
      readers.push_back(&expert.up);
    }
    pass.record(std::move(readers), input, pass.tokens);
  }
  if (routed.shared) {
    forward_plain(pass, *routed.shared, input, dst);
  } else {
    std::fill_n(dst, pass.tokens * hidden_size, 0.0F);
  }
  const std::vector<Assignment> assignments = route(pass, routed);
  std::size_t first = 0;
  for (std::size_t e = 0; e < spec.count; ++e) {
    const MlpWeights& expert = routed.experts[e];
    const Assignment& assignment = assignments[e];
    const std::size_t count = assignment.tokens.size();
    float* in = a.expert_input.data() + first * hidden_size;
    float* hidden = a.expert_hidden.data() + first * spec.size;
    float* up = a.expert_up.data() + first * spec.size;
    float* out = a.expert_output.data() + first * hidden_size;
    for (std::size_t i = 0; i < count; ++i) {
      std::copy_n(input + assignment.tokens[i] * hidden_size, hidden_size, in + i * hidden_size);
    }
    if (count > 0) apply(first_outputs(expert, hidden, up), in, count, a.quantized);
    activate(pass.spec, expert, count, hidden, up);
    const LinearOutput down[] = {{&expert.down, out, hidden_size}};
    pass.apply_linears(down, hidden, count, assignment.tokens);
    for (std::size_t i = 0; i < count; ++i) {
      float* sum = dst + assignment.tokens[i] * hidden_size;
      for (std::size_t c = 0; c < hidden_size; ++c) sum[c] += assignment.weights[i] * out[i * hidden_size + c];
    }
    first += count;
  }
}

}  // namespace

void forward_mlp(const BlockPass& pass, const float* input, float* dst) {
  if (const auto* plain = std::get_if<MlpWeights>(&pass.block.mlp)) {
    forward_plain(pass, *plain, input, dst);
  } else {
    forward_experts(pass, std::get<ExpertWeights>(pass.block.mlp), input, dst);
  }
}

}  // namespace ballast::model
