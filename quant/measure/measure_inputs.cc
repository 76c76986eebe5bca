#include "quant/measure/measure_inputs.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "samples/expert_tokens.h"
#include "samples/observer.h"

namespace ballast::quant {

namespace {

using samples::BlockRunner;
using samples::ObservedBatch;
using samples::SampleSharing;
using Inputs = MeasureOptions::Inputs;

/// Returns the factor by which an RMSNorm multiplies each token's values [tokens][hidden].
std::vector<float> norm_factors(std::span<const float> values, const ModelSpec& spec) {
  const std::size_t size = spec.hidden_size;
  std::vector<float> factors;
  for (; !values.empty(); values = values.subspan(size)) {
    double squares = 0;
    for (const float value : values.first(size)) squares += double{value} * double{value};
    factors.push_back(static_cast<float>(1 / std::sqrt(squares / static_cast<double>(size) + spec.norm.epsilon)));
  }
  return factors;
}

/// The measurements of one input.
struct MeasuredInput {
  WorkingInput* working;
  bool writes_stream;
  std::optional<HessianSum> moments;  ///< none: not asked for
  std::optional<PeakSum> peaks;
  std::optional<DriftSum> drift;
  std::optional<std::size_t> expert;  ///< the expert whose last linear reads it

  void end_shard(std::size_t shard) {
    if (moments) moments->end_shard(shard);
    if (peaks) peaks->end_shard(shard);
    if (drift) drift->end_shard(shard);
  }
};

class InputObserver : public samples::Observer {
 public:
  /// `forward` has the options of running the block and the original. All arguments must outlive this object.
  InputObserver(const model::BlockWeights& weights, const ModelSpec& spec, std::size_t layer, std::size_t length,
                const SampleSharing& sharing, const MeasureOptions& options, WorkingBlock& block)
      : weights_(weights), spec_(spec), layer_(layer), sharing_(sharing), options_(options), block_(block) {
    const std::optional<ExpertSpec>& experts = spec.layers[layer].mlp.experts;
    if (!experts) return;
    tokens_.emplace(spec, layer, length, sharing);
    if (options.each_expert) each_ = std::make_shared<ExpertMoments>(experts->count, spec.hidden_size, sharing);
  }

  void add(const ObservedBatch& batch) override {
    std::optional<ObservedBatch> original;
    if (options_.original != nullptr) original = run_original(batch);
    const model::BlockActivations& activations = *batch.activations;
    const std::vector<float> token_weights = norm_factors(original ? original->hidden : batch.hidden, spec_);
    std::vector<float> weights;
    for (std::size_t i = 0; i < activations.inputs.size(); ++i) {
      const model::LinearInput& input = activations.inputs[i];
      MeasuredInput& measured = inputs_.at(i, [&] { return begin(input); });
      if (!measured.moments) continue;
      weights.clear();
      for (std::size_t row = 0; measured.writes_stream && row < input.count; ++row) {
        weights.push_back(token_weights[input.tokens.empty() ? row : input.tokens[row]]);
      }
      measured.moments->add(input.rows, input.count, weights);
      if (measured.peaks) measured.peaks->add(input.rows, input.count, weights);
      if (measured.drift) add_drift(*measured.drift, input, weights, batch, *original);
    }
    if (!tokens_) return;
    const model::RoutedTokens& routing = activations.routing;
    tokens_->add(routing, sharing_.own().begin + batch.first, token_weights);
    if (each_) each_->add(routing.rows, routing.tokens, routing.of_expert);
  }

  void end_shard(std::size_t shard) override {
    inputs_.end_shard(shard);
    if (each_) each_->end_shard();
  }

  /// `scratch` are the buffers with which the block was run.
  void finish(model::BlockActivations& scratch) {
    if (tokens_) {
      tokens_->finish(*sharing_.ranks);
      block_.expert_tokens.assign(tokens_->counts().begin(), tokens_->counts().end());
    }
    for (MeasuredInput& input : inputs_) {
      if (!input.moments) continue;
      Hessian moments = input.moments->finish(*sharing_.ranks);
      std::optional<InputPeaks> peaks;
      if (input.peaks) peaks = input.peaks->finish(*sharing_.ranks);
      if (peaks && moments.rows > 0) input.working->peaks = std::make_shared<const InputPeaks>(*std::move(peaks));
      if (input.expert && options_.shrink && tokens_->is_starved(*input.expert)) {
        add_stand_ins(input, scratch, moments);
      }
      if (moments.rows == 0) continue;  // an expert that no token was sent to
      input.working->moments = std::make_shared<const Hessian>(std::move(moments));
      if (input.drift) input.working->drift = std::make_shared<const Drift>(input.drift->finish(*sharing_.ranks));
      if (each_ && !input.expert && has_experts(*input.working)) {
        if (options_.shrink) each_->shrink_toward(input.working->moments);
        input.working->expert_moments = each_;
      }
    }
  }

 private:
  /// Runs the same samples through the original model.
  ObservedBatch run_original(const ObservedBatch& batch) const {
    if (options_.inputs == Inputs::kOfDown) return options_.original->look(batch.first, batch.count);
    return options_.original->run(weights_, layer_, batch.first, batch.count, {.record_inputs = true});
  }

  MeasuredInput begin(const model::LinearInput& input) {
    const auto it = std::ranges::find_if(block_.inputs, [&](const WorkingInput& candidate) {
      return std::ranges::any_of(candidate.readers,
                                 [&](std::size_t r) { return block_.linears[r].part == input.readers.front(); });
    });
    assert(it != block_.inputs.end());
    const WorkingLinear& reader = block_.linears[it->readers.front()];
    MeasuredInput measured = {&*it, writes_stream(reader.part.role), {}, {}, {}, input.expert};
    const bool of_down = is_down(reader.part.role);
    if (options_.inputs == (of_down ? Inputs::kBeforeDown : Inputs::kOfDown)) return measured;
    measured.moments.emplace(reader.cols, sharing_.order);
    if (options_.peaks && reader.activations == ActivationType::kInt8) {
      measured.peaks.emplace(reader.cols, sharing_.order);
    }
    if (options_.original != nullptr && corrects_drift(*it)) {
      measured.drift.emplace(of_down ? Drift::Of::kStream : Drift::Of::kInput, of_down ? reader.rows : reader.cols,
                             reader.cols, sharing_.order);
    }
    return measured;
  }

  /// Returns whether some reader can correct the drift of its input; down, which has the most columns, can correct that
  /// of the whole stream if the block ends with adding its output. Experts have too few tokens.
  bool corrects_drift(const WorkingInput& input) const {
    const auto corrects = [&](std::size_t r) {
      const WorkingLinear& linear = block_.linears[r];
      return linear.format.quantizes() && !is_routed_expert(linear.part.role);
    };
    if (std::ranges::none_of(input.readers, corrects)) return false;
    const model::Role role = block_.linears[input.readers.front()].part.role;
    return !is_down(role) ||
           (role == model::Role::kDown && spec_.adds_returned() && spec_.layout != BlockLayout::kPostNorm);
  }

  static void add_drift(DriftSum& sum, const model::LinearInput& input, std::span<const float> weights,
                        const ObservedBatch& batch, const ObservedBatch& original) {
    if (sum.of() == Drift::Of::kStream) {
      return sum.add(original.hidden.data(), batch.hidden.data(), input.rows, input.count, weights);
    }
    const auto same = std::ranges::find(original.activations->inputs, input.readers, &model::LinearInput::readers);
    assert(same != original.activations->inputs.end());
    sum.add(same->rows, input.rows, input.rows, input.count, weights);
  }

  bool has_experts(const WorkingInput& input) const {
    return std::ranges::any_of(input.readers,
                               [&](std::size_t r) { return is_routed_expert(block_.linears[r].part.role); });
  }

  /// Adds the moments of the additional tokens of an expert with too few.
  void add_stand_ins(const MeasuredInput& input, model::BlockActivations& scratch, Hessian& moments) const {
    HessianSum sum(moments.cols, sharing_.order);
    samples::run_stand_ins(*tokens_, *input.expert, model::LoneExpert(spec_, weights_, layer_, *input.expert), sharing_,
                           scratch,
                           {.add = [&](const float* rows, std::size_t count,
                                       std::span<const float> weights) { sum.add(rows, count, weights); },
                            .end_shard = [&](std::size_t shard) { sum.end_shard(shard); }});
    const Hessian others = sum.finish(*sharing_.ranks);
    const auto routed = static_cast<double>(std::max<std::uint64_t>(1, moments.rows));
    moments.rows += others.rows;
    for (std::size_t i = 0; i < moments.values.size(); ++i) moments.values[i] += others.values[i];
    input.working->routed_share = std::min(1.0, routed / static_cast<double>(moments.rows));
  }

  const model::BlockWeights& weights_;
  const ModelSpec& spec_;
  std::size_t layer_;
  const SampleSharing& sharing_;
  const MeasureOptions& options_;
  WorkingBlock& block_;
  std::optional<samples::ExpertTokens> tokens_;
  std::shared_ptr<ExpertMoments> each_;  ///< null: not asked for
  samples::InputAccumulators<MeasuredInput> inputs_;
};

}  // namespace

void measure_inputs(BlockRunner& runner, const model::BlockWeights& weights, const ModelSpec& spec, std::size_t layer,
                    const SampleSharing& sharing, const MeasureOptions& options, WorkingBlock& block) {
  // The original's stream after the block gives the tokens' weights, so this one need not be computed.
  const bool mlp_input_only = options.inputs == Inputs::kBeforeDown && options.original != nullptr &&
                              std::holds_alternative<model::MlpWeights>(weights.mlp) && !spec.token_inputs;
  assert(!mlp_input_only || options.then == BlockRunner::Then::kStay);
  InputObserver observer(weights, spec, layer, runner.length(), sharing, options, block);
  runner.observe(weights, layer, sharing, options.then, {.record_inputs = true, .mlp_input_only = mlp_input_only},
                 {&observer});
  observer.finish(runner.scratch());
}

}  // namespace ballast::quant
