#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/activation.h"
#include "kernels/parallel.h"
#include "model/forward/forward_parts.h"
#include "model/forward/routing.h"

namespace ballast::model {

namespace {

/// Rows for an MLP's last linear: activation(gate(x)) * up(x), or activation(up(x)) where there is no gate, made from
/// what the first linears wrote.
struct ActivatedRows {
  const MlpSpec& mlp;
  bool gated;
  std::size_t size;
  const float* hidden;
  const float* up;

  const float* operator()(std::size_t row, float* dst) const {
    const float* src = hidden + row * size;
    if (!gated) {
      if (dst != src) std::copy_n(src, size, dst);
      kernels::activate(mlp.activation, dst, size);
    } else if (mlp.has_limits()) {
      kernels::UpLimits limits;
      if (mlp.limit > 0) limits.limit = static_cast<float>(mlp.limit);
      limits.offset = static_cast<float>(mlp.up_offset);
      kernels::activate_multiply_limited(mlp.activation, limits, src, up + row * size, size, dst);
    } else {
      kernels::activate_multiply(mlp.activation, src, up + row * size, size, dst);
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

  bool gates_in_product() const {
    return mlp.gate && !pass.layer.mlp.has_limits() && multiplied_by_gate(mlp.up, *mlp.gate);
  }

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
    const ActivatedRows activated = {pass.layer.mlp, mlp.gate.has_value(), size, hidden, up};
    pass.apply_linears({&dst, 1}, {kernels::RowSource(activated), size, hidden}, count, row_tokens);
  }
};

/// dst += mlp(input), or = where it is not to be added to.
void forward_plain(const BlockPass& pass, const MlpWeights& mlp, const LinearRows& input, float* dst,
                   bool accumulate = true) {
  BlockActivations& a = pass.activations;
  a.mlp_hidden.grow(pass.tokens * mlp.up.rows());
  a.mlp_up.grow(pass.tokens * mlp.up.rows());
  const MlpPass own = {pass, mlp, a.mlp_hidden.data(), a.mlp_up.data()};
  pass.apply_linears(own.first_outputs().all(), input, pass.tokens);
  own.apply_down({&mlp.down, dst, pass.spec.hidden_size, accumulate}, pass.tokens);
}

/// hidden += what the shared MLP makes of `input` [tokens][hidden_size], of which its router may want a share only: its
/// logits are there.
void forward_shared(const BlockPass& pass, const ExpertWeights& routed, const float* input, float* hidden) {
  const std::size_t size = pass.spec.hidden_size;
  const LinearRows rows(input, size);
  if (!routed.shared_router) return forward_plain(pass, *routed.shared, rows, hidden);
  BlockActivations& a = pass.activations;
  a.shared_output.grow(pass.tokens * size);
  forward_plain(pass, *routed.shared, rows, a.shared_output.data(), /*accumulate=*/false);
  kernels::parallel_ranges(pass.tokens, kernels::threads_for(pass.tokens * size),
                           [&](std::size_t begin, std::size_t end) {
                             for (std::size_t t = begin; t < end; ++t) {
                               const float share = 1.0F / (1.0F + std::exp(-a.shared_logits.data()[t]));
                               const float* output = a.shared_output.data() + t * size;
                               for (std::size_t c = 0; c < size; ++c) hidden[t * size + c] += share * output[c];
                             }
                           });
}

/// The rows that experts compute, an expert's side by side and in the order of their tokens.
struct ExpertRows {
  std::size_t per_token;
  std::vector<ExpertChoice> choices;  ///< [tokens][per_token]
  std::vector<std::size_t> rows;      ///< the same: where a choice's row is
  std::vector<std::size_t> first;     ///< [experts + 1]: of each expert's rows, and their number
  std::vector<std::size_t> tokens;    ///< of each row

  std::span<const std::size_t> tokens_of(std::size_t expert) const {
    return std::span(tokens).subspan(first[expert], first[expert + 1] - first[expert]);
  }
};

ExpertRows route(const BlockPass& pass, const ExpertWeights& routed) {
  constexpr std::size_t kOperationsOfALogit = 32;
  const ExpertSpec& spec = *pass.layer.mlp.experts;
  const std::size_t count = pass.tokens * spec.per_token;
  ExpertRows result = {.per_token = spec.per_token,
                       .choices = std::vector<ExpertChoice>(count),
                       .rows = std::vector<std::size_t>(count),
                       .first = std::vector<std::size_t>(spec.count + 1),
                       .tokens = std::vector<std::size_t>(count)};
  const auto choose = [&](std::size_t token) {
    const std::span logits(pass.activations.router_logits.data() + token * spec.count, spec.count);
    std::ranges::copy(choose_experts(spec, logits, routed.correction),
                      result.choices.begin() + static_cast<std::ptrdiff_t>(token * spec.per_token));
  };
  kernels::TaskFailure failure;
  kernels::parallel_tasks(pass.tokens, kernels::threads_for(pass.tokens * spec.count * kOperationsOfALogit),
                          [&](std::size_t token, std::size_t) { failure.keep(token, [&] { choose(token); }); });
  failure.rethrow();
  for (const ExpertChoice& choice : result.choices) ++result.first[choice.expert + 1];
  for (std::size_t e = 0; e < spec.count; ++e) result.first[e + 1] += result.first[e];
  std::vector<std::size_t> next = result.first;
  for (std::size_t i = 0; i < count; ++i) {
    result.rows[i] = next[result.choices[i].expert]++;
    result.tokens[result.rows[i]] = i / spec.per_token;
  }
  return result;
}

/// hidden [tokens][size] += what experts made of each token, times its weight.
void add_expert_outputs(const ExpertRows& experts, const float* outputs, std::size_t tokens, std::size_t size,
                        float* hidden) {
  const std::size_t threads = kernels::threads_for(tokens * experts.per_token * size);
  kernels::parallel_ranges(tokens, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin * experts.per_token; i < end * experts.per_token; ++i) {
      float* sum = hidden + i / experts.per_token * size;
      const float* output = outputs + experts.rows[i] * size;
      for (std::size_t c = 0; c < size; ++c) sum[c] += experts.choices[i].weight * output[c];
    }
  });
}

/// What an expert computes of its rows, and where.
MlpPass expert_pass(const BlockPass& pass, const ExpertWeights& routed, std::size_t expert, std::size_t first) {
  const std::size_t size = pass.layer.mlp.experts->size;
  return {pass, routed.experts[expert], pass.activations.expert_hidden.data() + first * size,
          pass.activations.expert_up.data() + first * size};
}

/// All chosen experts in two parallel calls; false where they do not want their rows in one form.
bool forward_at_once(const BlockPass& pass, const ExpertWeights& routed, const ExpertRows& experts,
                     const float* input) {
  const std::size_t hidden_size = pass.spec.hidden_size;
  BlockActivations& a = pass.activations;
  std::vector<LinearOfRows> into;
  std::vector<LinearOfRows> out;
  std::size_t gated = 0;  // in the product
  for (std::size_t e = 0; e < routed.experts.size(); ++e) {
    const std::size_t count = experts.tokens_of(e).size();
    if (count == 0) continue;
    const std::size_t first = experts.first[e];
    const MlpPass own = expert_pass(pass, routed, e, first);
    const LinearOutputs outputs = own.first_outputs();
    for (const LinearOutput& output : outputs.all()) into.push_back({output, first, count});
    out.push_back({{&own.mlp.down, a.expert_output.data() + first * hidden_size, hidden_size}, first, count});
    gated += own.gates_in_product() ? 1 : 0;
  }
  if (!want_same_form(into) || !want_same_form(out) || (gated != 0 && gated != out.size())) return false;
  const auto token_row = [&](std::size_t row, float*) { return input + experts.tokens[row] * hidden_size; };
  const std::size_t rows = experts.tokens.size();
  apply_apart(into, {kernels::RowSource(token_row), hidden_size, a.expert_input.data()}, rows, a.quantized);
  const std::size_t size = pass.layer.mlp.experts->size;
  float* made = a.expert_hidden.data();
  const ActivatedRows activated = {pass.layer.mlp, pass.layer.mlp.gated, size, made, a.expert_up.data()};
  const LinearRows down_rows =
      gated != 0 ? LinearRows(made, size) : LinearRows(kernels::RowSource(activated), size, made);
  apply_apart(out, down_rows, rows, a.quantized);
  return true;
}

/// With what calibration wants to see.
void forward_one_by_one(const BlockPass& pass, const ExpertWeights& routed, const ExpertRows& experts,
                        const float* input) {
  const std::size_t hidden_size = pass.spec.hidden_size;
  BlockActivations& a = pass.activations;
  for (std::size_t e = 0; e < routed.experts.size(); ++e) {
    const std::span<const std::size_t> tokens = experts.tokens_of(e);
    if (tokens.empty() && !pass.options.record_inputs) continue;
    const std::size_t first = experts.first[e];
    const MlpPass own = expert_pass(pass, routed, e, first);
    const auto token_row = [&](std::size_t row, float*) { return input + tokens[row] * hidden_size; };
    const LinearRows own_rows(kernels::RowSource(token_row), hidden_size, a.expert_input.data() + first * hidden_size);
    if (!tokens.empty()) apply(own.first_outputs().all(), own_rows, tokens.size(), a.quantized);
    const LinearOutput down = {&own.mlp.down, a.expert_output.data() + first * hidden_size, hidden_size};
    own.apply_down(down, tokens.size(), tokens);
  }
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
  LinearOutputs routers;
  routers.add({&routed.router, a.router_logits.data(), spec.count});
  if (routed.shared_router) {
    a.shared_logits.grow(pass.tokens);
    routers.add({&*routed.shared_router, a.shared_logits.data(), 1});
  }
  apply(routers.all(), {input, hidden_size}, pass.tokens, a.quantized);
  // An expert reads some of the rows that the router reads: one input for calibration.
  if (pass.options.record_inputs) {
    std::vector<const Linear*> readers = {&routed.router};
    if (routed.shared_router) readers.push_back(&*routed.shared_router);
    for (const MlpWeights& expert : routed.experts) {
      if (expert.gate) readers.push_back(&*expert.gate);
      readers.push_back(&expert.up);
    }
    pass.record(std::move(readers), input, pass.tokens);
  }
  if (routed.shared) forward_shared(pass, routed, input, hidden);
  const ExpertRows experts = route(pass, routed);
  if (pass.options.record_inputs || !forward_at_once(pass, routed, experts, input)) {
    forward_one_by_one(pass, routed, experts, input);
  }
  add_expert_outputs(experts, a.expert_output.data(), pass.tokens, hidden_size, hidden);
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
