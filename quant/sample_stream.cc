#include "quant/sample_stream.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "calib/calibration_plan.h"

namespace ballast::quant {

namespace {

/// Adds up the moments of all inputs of a block, batch after batch.
class MomentCollector {
 public:
  explicit MomentCollector(const SampleSharing& sharing) : sharing_(sharing) {}

  void add(const model::BlockActivations& activations) {
    for (std::size_t i = 0; i < activations.inputs.size(); ++i) {
      const model::LinearInput& input = activations.inputs[i];
      if (i == inputs_.size()) {
        std::vector<std::string> names;
        for (const model::Linear* linear : input.linears) names.push_back(linear->name);
        inputs_.push_back({std::move(names), MomentSum(input.linears.front()->cols(), sharing_.order)});
        // Shards before the first batch had no samples.
        for (const std::size_t empty : ended_) inputs_.back().sum.end_shard(empty);
      }
      inputs_[i].sum.add(input.rows, input.count);
    }
  }

  void end_shard(std::size_t index) {
    for (Input& input : inputs_) input.sum.end_shard(index);
    ended_.push_back(index);
  }

  std::vector<MeasuredInput> finish() {
    std::vector<MeasuredInput> measured;
    for (Input& input : inputs_) measured.push_back({std::move(input.linears), input.sum.finish(*sharing_.ranks)});
    return measured;
  }

 private:
  struct Input {
    std::vector<std::string> linears;
    MomentSum sum;
  };

  const SampleSharing& sharing_;
  std::vector<Input> inputs_;
  std::vector<std::size_t> ended_;  ///< shards
};

}  // namespace

SampleTokens own_samples(const SampleTokens& all, const SampleSharing& sharing) {
  const calib::IndexRange own = calib::samples_of_rank(sharing.ranks->rank(), sharing.ranks->size(), all.count());
  return {all.ids.subspan(own.begin * all.length, own.size() * all.length), all.length, all.prefix};
}

void attach_moments(std::vector<MeasuredInput> measured, WorkingBlock& block) {
  for (WorkingInput& input : block.inputs) {
    const std::string& reader = block.linears[input.readers.front()].name;
    const auto it = std::ranges::find_if(measured, [&](const MeasuredInput& candidate) {
      return std::ranges::find(candidate.linears, reader) != candidate.linears.end();
    });
    if (it == measured.end() || it->moments.rows == 0) continue;  // an expert that no token was sent to
    input.moments = std::make_shared<const InputMoments>(std::move(it->moments));
  }
}

SampleStream::SampleStream(const ModelSpec& spec, std::size_t length, std::function<void()> pulse)
    : spec_(spec), length_(length), pulse_(std::move(pulse)), rope_(spec) {}

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
    std::vector<model::KeyValueCache> caches;
    for (std::size_t i = 0; i < count; ++i) {
      caches.emplace_back(model::cache_shape(spec_),
                          model::KeyValueCacheOptions{.type = kernels::CacheType::kF32, .capacity = length_});
    }
    std::vector<model::BatchSequence> batch;
    batch.reserve(count);
    for (model::KeyValueCache& cache : caches) batch.push_back({.tokens = length_, .cache = &cache});
    rope_.look_up(batch, angles_);
    model::forward_block(spec_, block, layer, angles_, batch, 0, rows.data(), activations_,
                         {.record_inputs = visit != nullptr});
    if (visit) visit(activations_);
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

std::vector<MeasuredInput> SampleStream::measure(const model::BlockWeights& block, std::size_t layer,
                                                 const SampleSharing& sharing, Then then) {
  MomentCollector collector(sharing);
  const Visit visit = [&](const model::BlockActivations& activations) { collector.add(activations); };
  std::span<float> rest = hidden_;
  const calib::IndexRange shards = calib::shards_of(sharing.ranks->rank(), sharing.ranks->size());
  for (std::size_t shard = shards.begin; shard < shards.end; ++shard) {
    std::span<float> samples =
        rest.first(calib::samples_of_shard(shard, sharing.samples).size() * length_ * spec_.hidden_size);
    rest = rest.subspan(samples.size());
    if (then == Then::kAdvance) run(block, layer, samples, visit);
    std::vector<float> passing;
    while (then == Then::kStay && !samples.empty()) {
      const std::span<float> batch = samples.first(std::min(batch_values(), samples.size()));
      passing.assign(batch.begin(), batch.end());
      run(block, layer, passing, visit);
      samples = samples.subspan(batch.size());
    }
    collector.end_shard(shard);
  }
  return collector.finish();
}

}  // namespace ballast::quant
