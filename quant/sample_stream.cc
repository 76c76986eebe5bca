#include "quant/sample_stream.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

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

  /// `after` is the stream after the block, [tokens][hidden].
  void add(const model::BlockActivations& activations, std::span<const float> after, const ModelSpec& spec) {
    const std::vector<float> token_weights = norm_factors(after, spec);
    std::vector<float> weights;
    for (std::size_t i = 0; i < activations.inputs.size(); ++i) {
      const model::LinearInput& input = activations.inputs[i];
      if (i == inputs_.size()) begin(input);
      weights.clear();
      for (std::size_t row = 0; inputs_[i].writes_stream && row < input.count; ++row) {
        weights.push_back(token_weights[input.tokens.empty() ? row : input.tokens[row]]);
      }
      inputs_[i].moments.add(input.rows, input.count, weights);
      if (inputs_[i].peaks) inputs_[i].peaks->add(input.rows, input.count, weights);
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
      Hessian moments = input.moments.finish(*sharing_.ranks);
      std::optional<InputPeaks> peaks;
      if (input.peaks) peaks = input.peaks->finish(*sharing_.ranks);
      if (peaks && moments.rows > 0) input.working->peaks = std::make_shared<const InputPeaks>(*std::move(peaks));
      if (input.expert && what_.shrink && tokens_->is_starved(*input.expert)) {
        const model::LoneExpert expert(spec, weights, *block_.layer, *input.expert);
        add_stand_ins(input, expert, scratch, moments);
      }
      if (moments.rows == 0) continue;  // an expert that no token was sent to
      input.working->moments = std::make_shared<const Hessian>(std::move(moments));
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
    HessianSum moments;
    std::optional<PeakSum> peaks;
    std::optional<std::size_t> expert;  ///< whose last linear reads it

    void end_shard(std::size_t index) {
      moments.end_shard(index);
      if (peaks) peaks->end_shard(index);
    }
  };

  void begin(const model::LinearInput& input) {
    const std::string& name = input.linears.front();
    const auto it = std::ranges::find_if(block_.inputs, [&](const WorkingInput& candidate) {
      return std::ranges::any_of(candidate.readers, [&](std::size_t r) { return block_.linears[r].name == name; });
    });
    assert(it != block_.inputs.end());
    const WorkingLinear& reader = block_.linears[it->readers.front()];
    inputs_.push_back(
        {&*it, quant::writes_stream(reader.part.role), HessianSum(reader.cols, sharing_.order), {}, input.expert});
    if (what_.peaks && reader.activations == Recipe::Activations::kInt8)
      inputs_.back().peaks.emplace(reader.cols, sharing_.order);
    // Shards before the first batch had no samples.
    for (const std::size_t empty : ended_) inputs_.back().end_shard(empty);
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

SampleStream::SampleStream(const ModelSpec& spec, std::size_t length, std::function<void()> check_cancelled)
    : spec_(spec), length_(length), pulse_(std::move(check_cancelled)), rope_(spec) {}

std::size_t SampleStream::batch_values() const {
  return std::max<std::size_t>(1, calib::kBatchTokens / length_) * length_ * spec_.hidden_size;
}

void SampleStream::embed(const model::Embedding& embedding, const SampleTokens& tokens) {
  const std::size_t size = length_ * spec_.hidden_size;
  for (std::size_t s = 0; s < tokens.count(); ++s) {
    hidden_.resize(hidden_.size() + size);
    embedding.embed(tokens.ids.subspan(s * length_, length_), 0, hidden_.data() + hidden_.size() - size);
  }
}

void SampleStream::run(const model::BlockWeights& block, std::size_t layer, std::span<float> hidden,
                       const Visit& visit) {
  while (!hidden.empty()) {
    const std::span<float> rows = hidden.first(std::min(batch_values(), hidden.size()));
    const std::size_t count = rows.size() / (length_ * spec_.hidden_size);
    std::vector<model::SequenceState> states;
    for (std::size_t i = 0; i < count; ++i) {
      states.emplace_back(spec_, layer,
                          model::KeyValueCacheOptions{.type = kernels::CacheType::kF32, .capacity = length_});
    }
    std::vector<model::BatchSequence> batch;
    batch.reserve(count);
    for (model::SequenceState& state : states) batch.push_back({.tokens = length_, .state = &state});
    rope_.look_up(batch, angles_);
    model::forward_block(spec_, block, layer, angles_, batch, 0, rows.data(), activations_,
                         {.record_inputs = visit != nullptr});
    if (visit) visit(activations_, rows);
    if (pulse_) pulse_();
    hidden = hidden.subspan(rows.size());
  }
}

void SampleStream::advance(const model::BlockWeights& block, std::size_t layer, std::size_t at_once) {
  const std::size_t all = hidden_.size() / (length_ * spec_.hidden_size);
  const std::size_t piece = std::max<std::size_t>(1, std::min(at_once, all)) * length_ * spec_.hidden_size;
  for (std::span<float> rest = hidden_; !rest.empty(); rest = rest.subspan(std::min(piece, rest.size()))) {
    run(block, layer, rest.first(std::min(piece, rest.size())), {});
  }
}

void SampleStream::measure(const model::BlockWeights& weights, std::size_t layer, const SampleSharing& sharing,
                           Then then, What what, WorkingBlock& block) {
  InputCollector collector(sharing, what, block);
  if (const std::optional<ExpertSpec>& experts = spec_.layers[layer].mlp.experts) {
    collector.expect_experts(spec_, *experts, length_);
  }
  const Visit visit = [&](const model::BlockActivations& activations, std::span<const float> after) {
    collector.add(activations, after, spec_);
  };
  std::span<float> rest = hidden_;
  const jobs::IndexRange shards = jobs::shards_of(sharing.ranks->rank(), sharing.ranks->size());
  for (std::size_t shard = shards.begin; shard < shards.end; ++shard) {
    std::span<float> samples =
        rest.first(jobs::samples_of_shard(shard, sharing.samples).size() * length_ * spec_.hidden_size);
    rest = rest.subspan(samples.size());
    if (then == Then::kAdvance) run(weights, layer, samples, visit);
    std::vector<float> passing;
    while (then == Then::kStay && !samples.empty()) {
      const std::span<float> batch = samples.first(std::min(batch_values(), samples.size()));
      passing.assign(batch.begin(), batch.end());
      run(weights, layer, passing, visit);
      samples = samples.subspan(batch.size());
    }
    collector.end_shard(shard);
  }
  collector.finish(spec_, weights, activations_);
}

}  // namespace ballast::quant
