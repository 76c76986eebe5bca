#include "calib/block_accumulators.h"

#include <span>
#include <utility>

#include "model/forward/key_value_cache.h"
#include "model/mixer/mixer.h"

namespace ballast::calib {

namespace {

using jobs::IndexRange;

std::size_t heads_of(const LayerSpec& layer) {
  return layer.attention() == nullptr ? 0 : layer.attention()->heads;
}

model::CacheShape cache_of(const LayerSpec& layer) {
  return layer.attention() == nullptr ? model::CacheShape{} : model::cache_shape(layer);
}

}  // namespace

BlockAccumulators::BlockAccumulators(const ModelSpec& spec, std::size_t layer, const Samples& samples, Ranks& ranks)
    : keys(cache_of(spec.layers[layer]).kv_heads * cache_of(spec.layers[layer]).key_size),
      values(cache_of(spec.layers[layer]).kv_heads * cache_of(spec.layers[layer]).value_size),
      output(spec.hidden_size),
      first_token_share(heads_of(spec.layers[layer]), jobs::SumOrder::kFixed),
      spec_(spec),
      layer_(layer),
      samples_(samples),
      ranks_(ranks) {
  const std::optional<ExpertSpec>& experts = spec.layers[layer].mlp.experts;
  if (!experts) return;
  experts_.emplace(ExpertTokens::Shape{.experts = *experts,
                                       .hidden_size = spec.hidden_size,
                                       .samples = samples.count,
                                       .length = samples.length,
                                       .own = jobs::samples_of_rank(ranks.rank(), ranks.size(), samples.count)});
}

void BlockAccumulators::add(const model::BlockActivations& activations, const std::vector<std::uint8_t>& massive,
                            std::size_t first_sample, std::size_t shard) {
  for (std::size_t i = 0; i < activations.inputs.size(); ++i) add_input(activations.inputs[i], i, massive, shard);
  if (experts_) experts_->add(activations.routing, first_sample, std::vector<float>(massive.begin(), massive.end()));
  if (spec_.layers[layer_].attention() != nullptr) add_attention(activations, massive);
}

void BlockAccumulators::add_input(const model::LinearInput& input, std::size_t index,
                                  const std::vector<std::uint8_t>& massive, std::size_t shard) {
  if (index == inputs_.size()) {
    inputs_.push_back({input.linears, ChannelRanges(input.cols), input.expert});
    // Shards before the first batch had no samples.
    for (std::size_t empty = jobs::shards_of(ranks_.rank(), ranks_.size()).begin; empty < shard; ++empty) {
      inputs_.back().ranges.end_shard(empty);
    }
  }
  std::vector<std::uint8_t> flags;
  for (const std::size_t token : input.tokens) flags.push_back(massive[token]);
  if (input.count > 0) inputs_[index].ranges.add(input.rows, input.cols, input.tokens.empty() ? massive : flags);
}

void BlockAccumulators::add_attention(const model::BlockActivations& activations,
                                      const std::vector<std::uint8_t>& massive) {
  keys.add(activations.keys.rows, activations.keys.stride, massive);
  values.add(activations.values.rows, activations.values.stride, massive);
  const std::span<double> share = first_token_share.shard();
  for (std::size_t i = 0; i < activations.first_token_share.size(); ++i) {
    share[i % share.size()] += activations.first_token_share[i];
  }
}

void BlockAccumulators::end_shard(std::size_t shard) {
  for (InputRanges& input : inputs_) input.ranges.end_shard(shard);
  keys.end_shard(shard);
  values.end_shard(shard);
  first_token_share.end_shard(shard);
}

std::vector<LinearInputStatistics> BlockAccumulators::finish_inputs(const model::BlockWeights& block,
                                                                    model::BlockActivations& scratch) {
  if (experts_) {
    experts_->finish(ranks_);
    const std::span<const std::uint64_t> counts = experts_->counts();
    expert_statistics = {.layer = layer_ + 1,
                         .columns = spec_.layers[layer_].mlp.experts->size,
                         .tokens = {counts.begin(), counts.end()},
                         .stand_ins = std::vector<std::uint64_t>(counts.size())};
  }
  std::vector<LinearInputStatistics> finished;
  for (InputRanges& input : inputs_) {
    finished.push_back({.linears = std::move(input.linears), .channels = input.ranges.finish(ranks_)});
    if (input.expert && experts_->is_starved(*input.expert)) {
      add_stand_ins(block, scratch, *input.expert, finished.back().channels);
    }
  }
  return finished;
}

void BlockAccumulators::add_stand_ins(const model::BlockWeights& block, model::BlockActivations& scratch,
                                      std::size_t expert, ChannelStatistics& channels) {
  const std::size_t size = spec_.layers[layer_].mlp.experts->size;
  const model::LoneExpert run(spec_, block, layer_, expert);
  ChannelRanges ranges(size);
  const IndexRange shards = jobs::shards_of(ranks_.rank(), ranks_.size());
  for (std::size_t shard = shards.begin; shard < shards.end; ++shard) {
    const IndexRange samples = jobs::samples_of_shard(shard, samples_.count);
    for (std::size_t s = samples.begin; s < samples.end; ++s) {
      experts_->visit(expert, s, [&](const float* rows, std::size_t count, std::span<const float> massive) {
        ranges.add(run.down_rows(rows, count, scratch), size,
                   std::vector<std::uint8_t>(massive.begin(), massive.end()));
      });
    }
    ranges.end_shard(shard);
  }
  const ChannelStatistics others = ranges.finish(ranks_);
  channels = merged(channels, experts_->counts()[expert], others, ranges.rows());
  expert_statistics->stand_ins[expert] = ranges.rows();
}

}  // namespace ballast::calib
