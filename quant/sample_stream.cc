#include "quant/sample_stream.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "calib/calibration_plan.h"
#include "calib/expert_tokens.h"

namespace ballast::quant {

namespace {

/// What an RMSNorm multiplies each token's values [tokens][hidden] with.
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

/// Adds up the moments, and the peaks, of all inputs of a block, batch after batch.
class InputCollector {
 public:
  InputCollector(const SampleSharing& sharing, const SampleStream::What& what, WorkingBlock& block)
      : sharing_(sharing), what_(what), block_(block) {}

  /// The block has experts.
  void expect_experts(const ModelSpec& spec, const ExpertSpec& experts, std::size_t length) {
    const jobs::IndexRange own =
        jobs::samples_of_rank(sharing_.ranks->rank(), sharing_.ranks->size(), sharing_.samples);
    tokens_.emplace(calib::ExpertTokens::Shape{.experts = experts,
                                               .hidden_size = spec.hidden_size,
                                               .samples = sharing_.samples,
                                               .length = length,
                                               .own = own});
    length_ = length;
    next_sample_ = own.begin;
    if (what_.each_expert) each_ = std::make_shared<ExpertMoments>(experts.count, spec.hidden_size, sharing_);
  }

  struct Batch {
    const model::BlockActivations* activations;
    std::span<const float> after;  ///< the stream after the block, [tokens][hidden]; empty where it did not get there
  };

  /// `original` is the same in the original model, or null.
  void add(const Batch& batch, const Batch* original, const ModelSpec& spec) {
    const model::BlockActivations& activations = *batch.activations;
    const std::vector<float> token_weights = norm_factors(original != nullptr ? original->after : batch.after, spec);
    std::vector<float> weights;
    for (std::size_t i = 0; i < activations.inputs.size(); ++i) {
      const model::LinearInput& input = activations.inputs[i];
      if (i == inputs_.size()) begin(input, original != nullptr, spec);
      if (!inputs_[i].moments) continue;
      weights.clear();
      for (std::size_t row = 0; inputs_[i].writes_stream && row < input.count; ++row) {
        weights.push_back(token_weights[input.tokens.empty() ? row : input.tokens[row]]);
      }
      inputs_[i].moments->add(input.rows, input.count, weights);
      if (inputs_[i].peaks) inputs_[i].peaks->add(input.rows, input.count, weights);
      if (inputs_[i].drift) add_drift(*inputs_[i].drift, input, weights, batch, *original);
    }
    if (!tokens_) return;
    const model::RoutedTokens& routing = activations.routing;
    tokens_->add(routing, next_sample_, token_weights);
    next_sample_ += routing.tokens / length_;
    if (each_) each_->add(routing.rows, routing.tokens, routing.of_expert);
  }

  void end_shard(std::size_t index) {
    for (Input& input : inputs_) input.end_shard(index);
    if (each_) each_->end_shard();
    ended_.push_back(index);
  }

  /// `weights` are what ran of the block, `scratch` what it was run with.
  void finish(const ModelSpec& spec, const model::BlockWeights& weights, model::BlockActivations& scratch) {
    if (tokens_) {
      tokens_->finish(*sharing_.ranks);
      block_.expert_tokens.assign(tokens_->counts().begin(), tokens_->counts().end());
    }
    for (Input& input : inputs_) {
      if (!input.moments) continue;
      Hessian moments = input.moments->finish(*sharing_.ranks);
      std::optional<InputPeaks> peaks;
      if (input.peaks) peaks = input.peaks->finish(*sharing_.ranks);
      if (peaks && moments.rows > 0) input.working->peaks = std::make_shared<const InputPeaks>(*std::move(peaks));
      if (input.expert && what_.shrink && tokens_->is_starved(*input.expert)) {
        const model::LoneExpert expert(spec, weights, *block_.layer, *input.expert);
        add_stand_ins(input, expert, scratch, moments);
      }
      if (moments.rows == 0) continue;  // an expert that no token was sent to
      input.working->moments = std::make_shared<const Hessian>(std::move(moments));
      if (input.drift) input.working->drift = std::make_shared<const Drift>(input.drift->finish(*sharing_.ranks));
      if (each_ && !input.expert && has_experts(*input.working)) {
        if (what_.shrink) each_->shrink_toward(input.working->moments);
        input.working->expert_moments = each_;
      }
    }
  }

 private:
  struct Input {
    WorkingInput* working;
    bool writes_stream;
    std::optional<HessianSum> moments;  ///< none: not asked for
    std::optional<PeakSum> peaks;
    std::optional<DriftSum> drift;
    std::optional<std::size_t> expert;  ///< whose last linear reads it

    void end_shard(std::size_t index) {
      if (moments) moments->end_shard(index);
      if (peaks) peaks->end_shard(index);
      if (drift) drift->end_shard(index);
    }
  };

  void begin(const model::LinearInput& input, bool drifts, const ModelSpec& spec) {
    const std::string& name = input.linears.front();
    const auto it = std::ranges::find_if(block_.inputs, [&](const WorkingInput& candidate) {
      return std::ranges::any_of(candidate.readers, [&](std::size_t r) { return block_.linears[r].name == name; });
    });
    assert(it != block_.inputs.end());
    const WorkingLinear& reader = block_.linears[it->readers.front()];
    inputs_.push_back({&*it, quant::writes_stream(reader.part.role), {}, {}, {}, input.expert});
    const bool of_down = is_down(reader.part.role);
    if (what_.inputs == (of_down ? SampleStream::Inputs::kBeforeDown : SampleStream::Inputs::kOfDown)) return;
    inputs_.back().moments.emplace(reader.cols, sharing_.order);
    if (what_.peaks && reader.activations == Recipe::Activations::kInt8)
      inputs_.back().peaks.emplace(reader.cols, sharing_.order);
    if (drifts && corrects_drift(*it, spec)) {
      inputs_.back().drift.emplace(of_down ? Drift::Of::kStream : Drift::Of::kInput,
                                   of_down ? reader.rows : reader.cols, reader.cols, sharing_.order);
    }
    // Shards before the first batch had no samples.
    for (const std::size_t empty : ended_) inputs_.back().end_shard(empty);
  }

  /// Whether some reader can correct the drift of what it reads; down, which has the most columns, that of the whole
  /// stream, where the block ends with what it adds to that. Experts see too few tokens.
  bool corrects_drift(const WorkingInput& input, const ModelSpec& spec) const {
    const auto corrects = [&](std::size_t r) {
      const WorkingLinear& linear = block_.linears[r];
      return linear.format.quantizes() && !is_routed_expert(linear.part.role);
    };
    if (std::ranges::none_of(input.readers, corrects)) return false;
    const model::Role role = block_.linears[input.readers.front()].part.role;
    return !is_down(role) ||
           (role == model::Role::kDown && spec.adds_returned() && spec.layout != BlockLayout::kPostNorm);
  }

  static void add_drift(DriftSum& sum, const model::LinearInput& input, std::span<const float> weights,
                        const Batch& batch, const Batch& original) {
    if (sum.of() == Drift::Of::kStream) {
      return sum.add(original.after.data(), batch.after.data(), input.rows, input.count, weights);
    }
    const auto same = std::ranges::find(original.activations->inputs, input.linears, &model::LinearInput::linears);
    assert(same != original.activations->inputs.end());
    sum.add(same->rows, input.rows, input.rows, input.count, weights);
  }

  bool has_experts(const WorkingInput& input) const {
    return std::ranges::any_of(input.readers,
                               [&](std::size_t r) { return is_routed_expert(block_.linears[r].part.role); });
  }

  /// The moments of an expert that got too few tokens, with those of the tokens that stand in for more.
  void add_stand_ins(const Input& input, const model::LoneExpert& expert, model::BlockActivations& scratch,
                     Hessian& moments) const {
    HessianSum sum(moments.cols, sharing_.order);
    for (const std::size_t shard : ended_) {
      const jobs::IndexRange samples = jobs::samples_of_shard(shard, sharing_.samples);
      for (std::size_t s = samples.begin; s < samples.end; ++s) {
        tokens_->visit(*input.expert, s, [&](const float* rows, std::size_t count, std::span<const float> weights) {
          sum.add(expert.down_rows(rows, count, scratch), count, weights);
        });
      }
      sum.end_shard(shard);
    }
    const Hessian others = sum.finish(*sharing_.ranks);
    const auto routed = static_cast<double>(std::max<std::uint64_t>(1, moments.rows));
    moments.rows += others.rows;
    for (std::size_t i = 0; i < moments.values.size(); ++i) moments.values[i] += others.values[i];
    input.working->routed_share = std::min(1.0, routed / static_cast<double>(moments.rows));
  }

  const SampleSharing& sharing_;
  SampleStream::What what_;
  WorkingBlock& block_;
  std::optional<calib::ExpertTokens> tokens_;
  std::shared_ptr<ExpertMoments> each_;  ///< null: not asked for
  std::size_t length_ = 0;
  std::size_t next_sample_ = 0;
  std::vector<Input> inputs_;
  std::vector<std::size_t> ended_;  ///< shards
};

}  // namespace

SampleTokens own_samples(const SampleTokens& all, const SampleSharing& sharing) {
  const jobs::IndexRange own = jobs::samples_of_rank(sharing.ranks->rank(), sharing.ranks->size(), all.count());
  return {all.ids.subspan(own.begin * all.length, own.size() * all.length), all.length, all.prefix};
}

void SampleRows::append(const SampleRows& others) {
  hidden.insert(hidden.end(), others.hidden.begin(), others.hidden.end());
  shared_keys.insert(shared_keys.end(), others.shared_keys.begin(), others.shared_keys.end());
}

SampleStream::SampleStream(const ModelSpec& spec, std::size_t length, std::function<void()> check_cancelled)
    : spec_(spec), length_(length), check_cancelled_(std::move(check_cancelled)), rope_(spec), shared_keys_(spec) {}

std::size_t SampleStream::batch_samples() const {
  return std::max<std::size_t>(1, calib::kBatchTokens / length_);
}

SampleStream::Samples SampleStream::Samples::part(std::size_t begin, std::size_t most) const {
  const std::size_t taken = std::min(most, count - begin);
  const auto own = [&](std::span<float> rows) {
    return rows.subspan(rows.size() / count * begin, rows.size() / count * taken);
  };
  return {first + begin, taken, own(hidden), own(shared_keys)};
}

SampleStream::Samples SampleStream::all() {
  return {0, rows_.hidden.size() / (length_ * spec_.hidden_size), rows_.hidden, rows_.shared_keys};
}

void SampleStream::set_origin(std::shared_ptr<const model::Embedding> embedding, const SampleTokens& tokens) {
  if (!spec_.token_inputs) return;
  embedding_ = std::move(embedding);
  tokens_ = tokens;
}

void SampleStream::embed(std::shared_ptr<const model::Embedding> embedding, const SampleTokens& tokens) {
  const std::size_t size = length_ * spec_.hidden_size;
  std::vector<float>& hidden = rows_.hidden;
  for (std::size_t s = 0; s < tokens.count(); ++s) {
    hidden.resize(hidden.size() + size);
    embedding->embed(tokens.ids.subspan(s * length_, length_), 0, hidden.data() + hidden.size() - size);
  }
  rows_.shared_keys.resize(hidden.size() / spec_.hidden_size * shared_keys_.row_size());
  if (embedding_ == nullptr) set_origin(std::move(embedding), tokens);
}

void SampleStream::resize(const SampleTokens& tokens) {
  rows_.hidden.resize(tokens.ids.size() * spec_.hidden_size);
  rows_.shared_keys.resize(tokens.ids.size() * shared_keys_.row_size());
}

/// What a layer gets of the tokens themselves.
model::StridedRows SampleStream::token_inputs(std::size_t layer, const Samples& batch) {
  if (!spec_.token_inputs) return {};
  token_inputs_.clear();
  for (std::size_t i = 0; i < batch.count; ++i) {
    const std::size_t sample = (batch.first + i) % tokens_.count();
    embedding_->add_token_inputs(tokens_.ids.subspan(sample * length_, length_), token_inputs_);
  }
  return model::token_inputs_of_layer(spec_, token_inputs_.data(), layer);
}

void SampleStream::run_batch(const model::BlockWeights& block, std::size_t layer, const Samples& batch,
                             const model::ForwardOptions& options) {
  std::vector<model::SequenceState> states;
  for (std::size_t i = 0; i < batch.count; ++i) {
    states.emplace_back(spec_, layer,
                        model::KeyValueCacheOptions{.type = kernels::CacheType::kF32, .capacity = length_});
    shared_keys_.give(layer, batch.part(i, 1).shared_keys, states.back());
  }
  std::vector<model::BatchSequence> sequences;
  sequences.reserve(batch.count);
  for (model::SequenceState& state : states) sequences.push_back({.tokens = length_, .state = &state});
  rope_.look_up(sequences, angles_);
  model::ForwardOptions own_options = options;
  own_options.token_inputs = token_inputs(layer, batch);
  model::forward_block(spec_, block, layer, angles_, sequences, 0, batch.hidden.data(), activations_, own_options);
  shared_keys_.keep(layer, activations_, batch.shared_keys);
}

void SampleStream::run(const model::BlockWeights& block, std::size_t layer, const Samples& samples,
                       const model::ForwardOptions& options, const Visit& visit) {
  for (std::size_t begin = 0; begin < samples.count; begin += batch_samples()) {
    const Samples batch = samples.part(begin, batch_samples());
    run_batch(block, layer, batch, options);
    if (visit) visit(batch);
    if (check_cancelled_) check_cancelled_();
  }
}

void SampleStream::advance(const model::BlockWeights& block, std::size_t layer, std::size_t at_once) {
  const Samples samples = all();
  const std::size_t most = std::max<std::size_t>(1, std::min(at_once, samples.count));
  for (std::size_t begin = 0; begin < samples.count; begin += most) {
    run(block, layer, samples.part(begin, most), {}, {});
  }
}

void SampleStream::measure_shard(const model::BlockWeights& weights, std::size_t layer, const Samples& samples,
                                 Then then, const model::ForwardOptions& options, const Visit& visit) {
  if (then == Then::kAdvance) return run(weights, layer, samples, options, visit);
  for (std::size_t begin = 0; begin < samples.count; begin += batch_samples()) {
    const Samples batch = samples.part(begin, batch_samples());
    std::vector<float> hidden(batch.hidden.begin(), batch.hidden.end());
    std::vector<float> shared_keys(batch.shared_keys.begin(), batch.shared_keys.end());
    run(weights, layer, {batch.first, batch.count, hidden, shared_keys}, options, visit);
  }
}

void SampleStream::measure(const model::BlockWeights& weights, std::size_t layer, const SampleSharing& sharing,
                           Then then, What what, WorkingBlock& block) {
  InputCollector collector(sharing, what, block);
  if (const std::optional<ExpertSpec>& experts = spec_.layers[layer].mlp.experts) {
    collector.expect_experts(spec_, *experts, length_);
  }
  // The original's stream after the block tells how tokens count, so that this one's need not get there.
  const bool mlp_input_only = what.inputs == Inputs::kBeforeDown && what.original != nullptr &&
                              std::holds_alternative<model::MlpWeights>(weights.mlp) && !spec_.token_inputs;
  assert(!mlp_input_only || then == Then::kStay);
  const model::ForwardOptions options = {.record_inputs = true, .mlp_input_only = mlp_input_only};
  const Visit visit = [&](const Samples& batch) {
    const InputCollector::Batch own{&activations_, mlp_input_only ? std::span<const float>() : batch.hidden};
    if (what.original == nullptr) return collector.add(own, nullptr, spec_);
    const Samples same = what.original->all().part(batch.first, batch.count);
    if (what.inputs != Inputs::kOfDown) what.original->run_batch(weights, layer, same, {.record_inputs = true});
    const InputCollector::Batch original{&what.original->activations_, same.hidden};
    collector.add(own, &original, spec_);
  };
  const Samples samples = all();
  std::size_t begin = 0;
  const jobs::IndexRange shards = jobs::shards_of(sharing.ranks->rank(), sharing.ranks->size());
  for (std::size_t shard = shards.begin; shard < shards.end; ++shard) {
    const std::size_t count = jobs::samples_of_shard(shard, sharing.samples).size();
    if (count > 0) measure_shard(weights, layer, samples.part(begin, count), then, options, visit);
    begin += count;
    collector.end_shard(shard);
  }
  collector.finish(spec_, weights, activations_);
}

}  // namespace ballast::quant
