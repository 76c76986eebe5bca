#include "model/forward/forward_mlp.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "kernels/activation.h"
#include "kernels/parallel.h"
#include "model/forward/forward.h"
#include "model/forward/routing.h"

namespace ballast::model {

namespace {

/// Computes rows for an MLP's last linear from the first linears' outputs: activation(gate(x)) * up(x), or
/// activation(up(x)) without a gate.
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

/// An MLP's pass over `count` rows, with memory for its first linears' outputs.
struct MlpPass {
  const BlockPass& pass;
  const MlpWeights& mlp;
  float* hidden;  ///< [count][up's rows]
  float* up;      ///< the gate's factor, of the same size

  bool gates_in_product() const {
    return mlp.gate && !pass.layer.mlp.has_limits() && multiplied_by_gate(mlp.up, *mlp.gate, pass.rows);
  }

  /// Returns the first linears' outputs: gate and up, or only their product.
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

  /// Computes dst (+)= down(activated hidden). If the activated rows are wanted in memory, they replace hidden.
  void apply_down(const LinearOutput& dst, const StepRows& step) const {
    const std::size_t size = mlp.up.rows();
    if (gates_in_product()) return pass.apply_linears({&dst, 1}, {hidden, size}, step);
    const ActivatedRows activated = {pass.layer.mlp, mlp.gate.has_value(), size, hidden, up};
    pass.apply_linears({&dst, 1}, {kernels::RowSource(activated), size, hidden}, step);
  }
};

/// Computes dst += mlp(input), or dst = mlp(input).
void forward_plain(const BlockPass& pass, const MlpWeights& mlp, const LinearRows& input, float* dst,
                   bool accumulate = true) {
  BlockActivations& a = pass.activations;
  a.mlp_hidden.grow(pass.tokens * mlp.up.rows());
  a.mlp_up.grow(pass.tokens * mlp.up.rows());
  const MlpPass own = {pass, mlp, a.mlp_hidden.data(), a.mlp_up.data()};
  pass.apply_linears(own.first_outputs().all(), input, pass.rows);
  own.apply_down({&mlp.down, dst, pass.spec.hidden_size, accumulate}, pass.rows);
}

/// Adds normalized rows to hidden; the rows may be changed.
void add_normalized(const BlockPass& pass, const Norm& norm, float* rows, float* hidden) {
  norm.apply(rows, pass.tokens, rows);
  add_values(rows, pass.tokens * pass.spec.hidden_size, 1.0F, hidden);
}

/// Adds the shared MLP's output for `input` [tokens][hidden_size] to hidden, normalized if it has a norm, and
/// multiplied by its router's share if it has a router, whose logits have been computed.
void forward_shared(const BlockPass& pass, const ExpertWeights& routed, const float* input, float* hidden) {
  const std::size_t size = pass.spec.hidden_size;
  const LinearRows rows(input, size);
  const bool normalized = !routed.shared_post_norm.gain.empty();
  if (!routed.shared_router && !normalized) return forward_plain(pass, *routed.shared, rows, hidden);
  BlockActivations& a = pass.activations;
  a.shared_output.grow(pass.tokens * size);
  forward_plain(pass, *routed.shared, rows, a.shared_output.data(), /*accumulate=*/false);
  if (normalized) return add_normalized(pass, routed.shared_post_norm, a.shared_output.data(), hidden);
  kernels::parallel_ranges(pass.tokens, kernels::threads_for(pass.tokens * size),
                           [&](std::size_t begin, std::size_t end) {
                             for (std::size_t t = begin; t < end; ++t) {
                               const float share = 1.0F / (1.0F + std::exp(-a.shared_logits.data()[t]));
                               const float* output = a.shared_output.data() + t * size;
                               for (std::size_t c = 0; c < size; ++c) hidden[t * size + c] += share * output[c];
                             }
                           });
}

/// The rows that experts compute: those of one expert are adjacent, in the order of their tokens.
struct ExpertRows {
  std::size_t per_token;
  std::vector<ExpertChoice> choices;  ///< [tokens][per_token]
  std::vector<std::size_t> rows;      ///< the row of each choice
  std::vector<std::size_t> first;     ///< [experts + 1]: of each expert's rows, and their number
  std::vector<std::size_t> tokens;    ///< of each row
  std::vector<float> input_weights;   ///< of each row, if a choice's weight multiplies its input; else empty

  std::span<const std::size_t> tokens_of(std::size_t expert) const {
    return std::span(tokens).subspan(first[expert], first[expert + 1] - first[expert]);
  }

  /// Returns the input of a row: the token's row of `input` [tokens][size], times its weight if the weight multiplies
  /// inputs.
  const float* input_row(const float* input, std::size_t size, std::size_t row, float* scratch) const {
    const float* token = input + tokens[row] * size;
    if (input_weights.empty()) return token;
    for (std::size_t c = 0; c < size; ++c) scratch[c] = input_weights[row] * token[c];
    return scratch;
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
                       .tokens = std::vector<std::size_t>(count),
                       .input_weights = std::vector<float>(spec.weighs_inputs ? count : 0)};
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
    if (spec.weighs_inputs) result.input_weights[result.rows[i]] = std::exchange(result.choices[i].weight, 1.0F);
  }
  return result;
}

/// Adds the experts' outputs for each token, times their weights, to hidden [tokens][size].
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

/// Keeps the weights of some experts in memory.
class HeldExperts {
 public:
  HeldExperts(const ExpertWeights& routed, std::span<const std::size_t> experts) : routed_(routed) {
    if (routed.store != nullptr) held_ = routed.store->get(experts);
  }

  /// Returns the weights of expert `expert`, the `index`th one.
  const MlpWeights& weights(std::size_t index, std::size_t expert) const {
    return held_.empty() ? routed_.experts[expert] : *held_[index];
  }

 private:
  const ExpertWeights& routed_;
  std::vector<std::shared_ptr<const MlpWeights>> held_;
};

/// A pass over the rows of some experts, in ascending order; the rows are adjacent.
struct ExpertsPass {
  const BlockPass& pass;
  const ExpertRows& all;
  const float* input;  ///< [tokens][hidden_size]
  std::span<const std::size_t> experts;
  const HeldExperts& held;

  std::size_t first_row() const { return all.first[experts.front()]; }

  /// Returns the pass of the `index`th expert over its own rows.
  MlpPass own(std::size_t index) const {
    const std::size_t first = all.first[experts[index]] * pass.layer.mlp.experts->size;
    return {pass, held.weights(index, experts[index]), pass.activations.expert_hidden.data() + first,
            pass.activations.expert_up.data() + first};
  }

  /// Returns the output of the `index`th expert.
  LinearOutput output(std::size_t index, const MlpPass& own) const {
    const std::size_t size = pass.spec.hidden_size;
    return {&own.mlp.down, pass.activations.expert_output.data() + all.first[experts[index]] * size, size};
  }
};

/// Runs in two parallel calls; returns false if weights are floats, if a gate needs its rows in another format, or if
/// there are adapters.
bool forward_at_once(const ExpertsPass& experts) {
  const BlockPass& pass = experts.pass;
  if (!pass.rows.adapters().empty()) return false;
  const std::size_t hidden_size = pass.spec.hidden_size;
  const std::size_t begin = experts.first_row();
  BlockActivations& a = pass.activations;
  std::vector<LinearOfRows> into;
  std::vector<LinearOfRows> out;
  for (std::size_t i = 0; i < experts.experts.size(); ++i) {
    const std::size_t count = experts.all.tokens_of(experts.experts[i]).size();
    const std::size_t first = experts.all.first[experts.experts[i]] - begin;
    const MlpPass own = experts.own(i);
    const LinearOutputs outputs = own.first_outputs();
    for (const LinearOutput& output : outputs.all()) into.push_back({output, first, count});
    out.push_back({experts.output(i, own), first, count});
  }
  if (!can_apply_ragged(into) || !can_apply_ragged(out)) return false;
  const auto token_row = [&](std::size_t row, float* scratch) {
    return experts.all.input_row(experts.input, hidden_size, begin + row, scratch);
  };
  apply_ragged(into, {kernels::RowSource(token_row), hidden_size, a.expert_input.data()}, a.quantized_runs);
  const std::size_t size = pass.layer.mlp.experts->size;
  float* made = a.expert_hidden.data() + begin * size;
  const ActivatedRows activated = {pass.layer.mlp, pass.layer.mlp.gated, size, made, a.expert_up.data() + begin * size};
  const bool gated = into.front().output.gate != nullptr;  // as in all experts: a gate has the format of its linear
  const LinearRows down_rows = gated ? LinearRows(made, size) : LinearRows(kernels::RowSource(activated), size, made);
  apply_ragged(out, down_rows, a.quantized_runs);
  return true;
}

/// Runs the experts one by one and records their activations for calibration.
void forward_one_by_one(const ExpertsPass& experts) {
  const BlockPass& pass = experts.pass;
  const std::size_t hidden_size = pass.spec.hidden_size;
  BlockActivations& a = pass.activations;
  for (std::size_t i = 0; i < experts.experts.size(); ++i) {
    const std::size_t expert = experts.experts[i];
    const std::span<const std::size_t> tokens = experts.all.tokens_of(expert);
    const MlpPass own = experts.own(i);
    const std::size_t first = experts.all.first[expert];
    const auto token_row = [&](std::size_t row, float* scratch) {
      return experts.all.input_row(experts.input, hidden_size, first + row, scratch);
    };
    const LinearRows own_rows(kernels::RowSource(token_row), hidden_size, a.expert_input.data() + first * hidden_size);
    const StepRows step = pass.rows.choose(tokens);
    if (!tokens.empty()) apply(own.first_outputs().all(), own_rows, step, a.linears);
    own.apply_down(experts.output(i, own), step);
    if (pass.options.record_inputs) a.inputs.back().expert = expert;
  }
}

void record_routing(const BlockPass& pass, const ExpertWeights& routed, const float* input, const ExpertRows& experts) {
  // An expert reads some of the router's rows: one input for calibration.
  std::vector<const Linear*> readers = {&routed.router};
  if (routed.shared_router) readers.push_back(&*routed.shared_router);
  for (const MlpWeights& expert : routed.experts) {
    if (expert.gate) readers.push_back(&*expert.gate);
    readers.push_back(&expert.up);
  }
  pass.record(readers, input, pass.rows);
  RoutedTokens& routing = pass.activations.routing;
  routing.rows = input;
  routing.logits = pass.activations.router_logits.data();
  routing.tokens = pass.tokens;
  for (std::size_t e = 0; e < pass.layer.mlp.experts->count; ++e) {
    const std::span<const std::size_t> tokens = experts.tokens_of(e);
    routing.of_expert.emplace_back(tokens.begin(), tokens.end());
  }
}

/// Runs the chosen experts on their rows, as many at once as can be in memory.
void run_experts(const BlockPass& pass, const ExpertWeights& routed, const ExpertRows& rows, const float* input) {
  std::vector<std::size_t> chosen;
  for (std::size_t e = 0; e < pass.layer.mlp.experts->count; ++e) {
    if (!rows.tokens_of(e).empty() || pass.options.record_inputs) chosen.push_back(e);
  }
  const std::size_t most = routed.store == nullptr ? chosen.size() : routed.store->most_at_once();
  for (std::span<const std::size_t> left = chosen; !left.empty(); left = left.subspan(std::min(most, left.size()))) {
    const std::span<const std::size_t> now = left.first(std::min(most, left.size()));
    const HeldExperts held(routed, now);
    const ExpertsPass experts = {pass, rows, input, now, held};
    if (pass.options.record_inputs || !forward_at_once(experts)) forward_one_by_one(experts);
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
  apply(routers.all(), {input, hidden_size}, pass.rows, a.linears);
  const ExpertRows experts = route(pass, routed);
  if (pass.options.record_inputs) record_routing(pass, routed, input, experts);
  if (routed.shared) forward_shared(pass, routed, input, hidden);
  run_experts(pass, routed, experts, input);
  if (routed.post_norm.gain.empty()) {
    return add_expert_outputs(experts, a.expert_output.data(), pass.tokens, hidden_size, hidden);
  }
  a.experts_sum.grow(pass.tokens * hidden_size);
  std::fill_n(a.experts_sum.data(), pass.tokens * hidden_size, 0.0F);
  add_expert_outputs(experts, a.expert_output.data(), pass.tokens, hidden_size, a.experts_sum.data());
  add_normalized(pass, routed.post_norm, a.experts_sum.data(), hidden);
}

}  // namespace

void forward_mlp(const BlockPass& pass, const LinearRows& input, float* hidden) {
  if (const auto* plain = std::get_if<MlpWeights>(&pass.block.mlp)) {
    if (!pass.options.mlp_input_only) return forward_plain(pass, *plain, input, hidden);
    const LinearOutputs readers = MlpPass{pass, *plain, nullptr, nullptr}.first_outputs();
    pass.record_input(readers.all(), input, pass.rows);
  } else {
    forward_experts(pass, std::get<ExpertWeights>(pass.block.mlp), input, hidden);
  }
}

LoneExpert::LoneExpert(const ModelSpec& spec, const BlockWeights& block, std::size_t layer, std::size_t expert)
    : spec_(spec), block_(block), layer_(layer), expert_(expert) {
  const auto& routed = std::get<ExpertWeights>(block.mlp);
  if (routed.store != nullptr) loaded_ = routed.store->get({&expert, 1}).front();
  weights_ = loaded_ != nullptr ? loaded_.get() : &routed.experts[expert];
}

std::vector<float> LoneExpert::weighted_rows(const float* rows, std::size_t count,
                                             BlockActivations& activations) const {
  const ExpertSpec& experts = *spec_.layers[layer_].mlp.experts;
  if (!experts.weighs_inputs) return {};
  const std::size_t size = spec_.hidden_size;
  activations.router_logits.grow(count * experts.count);
  LinearOutputs router;
  router.add({&std::get<ExpertWeights>(block_.mlp).router, activations.router_logits.data(), experts.count});
  apply(router.all(), {rows, size}, StepRows::outside(count), activations.linears);
  std::vector<float> weighted(rows, rows + count * size);
  for (std::size_t i = 0; i < count; ++i) {
    const std::span logits(activations.router_logits.data() + i * experts.count, experts.count);
    const float weight = expert_scores(experts.scoring, logits)[expert_] * static_cast<float>(experts.scale);
    for (std::size_t c = 0; c < size; ++c) weighted[i * size + c] *= weight;
  }
  return weighted;
}

const float* LoneExpert::down_rows(const float* rows, std::size_t count, BlockActivations& activations) const {
  const LayerSpec& layer = spec_.layers[layer_];
  const std::size_t size = layer.mlp.experts->size;
  activations.expert_hidden.grow(count * size);
  activations.expert_up.grow(count * size);
  const AngleSet no_angles;
  const ForwardOptions options;
  const BlockPass pass = {.spec = spec_,
                          .block = block_,
                          .layer = layer,
                          .angles = no_angles,
                          .batch = {},
                          .state_layer = 0,
                          .activations = activations,
                          .options = options,
                          .rows = StepRows::outside(count)};
  float* hidden = activations.expert_hidden.data();
  const MlpPass own = {pass, *weights_, hidden, activations.expert_up.data()};
  const std::vector<float> weighted = weighted_rows(rows, count, activations);
  if (!weighted.empty()) rows = weighted.data();
  kernels::with_team([&] {
    apply(own.first_outputs().all(), {rows, spec_.hidden_size}, pass.rows, activations.linears);
    if (own.gates_in_product()) return;
    const ActivatedRows activated = {layer.mlp, weights_->gate.has_value(), size, hidden, own.up};
    LinearRows(kernels::RowSource(activated), size, hidden).all(count);
  });
  return hidden;
}

}  // namespace ballast::model
