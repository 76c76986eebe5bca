#include "calib/range_observer.h"

#include <utility>

#include "model/cache/key_value_cache.h"
#include "model/mixer/mixer_kind.h"

namespace ballast::calib {

namespace {

std::size_t heads_of(const LayerSpec& layer) {
  return layer.attention() == nullptr ? 0 : layer.attention()->heads;
}

model::CacheShape cache_of(const LayerSpec& layer) {
  return layer.attention() == nullptr ? model::CacheShape{} : model::cache_shape(layer);
}

}  // namespace

RangeObserver::RangeObserver(const ModelSpec& spec, std::size_t layer, std::size_t length,
                             const samples::SampleSharing& sharing, std::span<std::uint8_t> massive)
    : keys(cache_of(spec.layers[layer]).kv_heads * cache_of(spec.layers[layer]).key_size),
      values(cache_of(spec.layers[layer]).kv_heads * cache_of(spec.layers[layer]).value_size),
      output(spec.hidden_size),
      first_token_share(heads_of(spec.layers[layer]), jobs::SumOrder::kFixed),
      spec_(spec),
      layer_(layer),
      length_(length),
      sharing_(sharing),
      massive_(massive) {
  if (spec.layers[layer].mlp.experts) experts_.emplace(spec, layer, length, sharing);
}

void RangeObserver::add(const samples::ObservedBatch& batch) {
  // A token is massive if it has massive values before or after the block.
  const std::size_t first_sample = sharing_.own().begin + batch.first;
  const std::span<std::uint8_t> flags = massive_.subspan(batch.first * length_, batch.count * length_);
  std::vector<std::uint8_t> massive(flags.begin(), flags.end());
  output.add(batch.hidden.data(), first_sample * length_, flags);
  for (std::size_t r = 0; r < flags.size(); ++r) massive[r] |= flags[r];

  const model::BlockActivations& activations = *batch.activations;
  for (std::size_t i = 0; i < activations.inputs.size(); ++i) add_input(activations.inputs[i], i, massive);
  if (experts_) experts_->add(activations.routing, first_sample, std::vector<float>(massive.begin(), massive.end()));
  if (spec_.layers[layer_].attention() != nullptr) add_attention(activations, massive);
}

void RangeObserver::add_input(const model::LinearInput& input, std::size_t index,
                              const std::vector<std::uint8_t>& massive) {
  InputRanges& measured =
      inputs_.at(index, [&] { return InputRanges{input.readers, ChannelRanges(input.cols), input.expert}; });
  std::vector<std::uint8_t> flags;
  for (const std::size_t token : input.tokens) flags.push_back(massive[token]);
  if (input.count > 0) measured.ranges.add(input.rows, input.cols, input.tokens.empty() ? massive : flags);
}

void RangeObserver::add_attention(const model::BlockActivations& activations,
                                  const std::vector<std::uint8_t>& massive) {
  keys.add(activations.keys.rows, activations.keys.stride, massive);
  values.add(activations.values.rows, activations.values.stride, massive);
  const std::span<double> share = first_token_share.shard();
  for (std::size_t i = 0; i < activations.first_token_share.size(); ++i) {
    share[i % share.size()] += activations.first_token_share[i];
  }
}

void RangeObserver::end_shard(std::size_t shard) {
  inputs_.end_shard(shard);
  keys.end_shard(shard);
  values.end_shard(shard);
  first_token_share.end_shard(shard);
}

std::vector<RangeObserver::FinishedInput> RangeObserver::finish_inputs(const model::BlockWeights& block,
                                                                       model::BlockActivations& scratch) {
  if (experts_) {
    experts_->finish(*sharing_.ranks);
    const std::span<const std::uint64_t> counts = experts_->counts();
    expert_statistics = {.layer = layer_ + 1,
                         .columns = spec_.layers[layer_].mlp.experts->size,
                         .tokens = {counts.begin(), counts.end()},
                         .stand_ins = std::vector<std::uint64_t>(counts.size())};
  }
  std::vector<FinishedInput> finished;
  for (InputRanges& input : inputs_) {
    finished.push_back({.readers = std::move(input.readers), .channels = input.ranges.finish(*sharing_.ranks)});
    if (input.expert && experts_->is_starved(*input.expert)) {
      add_stand_ins(block, scratch, *input.expert, finished.back().channels);
    }
  }
  return finished;
}

void RangeObserver::add_stand_ins(const model::BlockWeights& block, model::BlockActivations& scratch,
                                  std::size_t expert, ChannelStatistics& channels) {
  const std::size_t size = spec_.layers[layer_].mlp.experts->size;
  ChannelRanges ranges(size);
  samples::run_stand_ins(*experts_, expert, model::LoneExpert(spec_, block, layer_, expert), sharing_, scratch,
                         {.add =
                              [&](const float* rows, std::size_t, std::span<const float> massive) {
                                ranges.add(rows, size, std::vector<std::uint8_t>(massive.begin(), massive.end()));
                              },
                          .end_shard = [&](std::size_t shard) { ranges.end_shard(shard); }});
  const ChannelStatistics others = ranges.finish(*sharing_.ranks);
  channels = merged(channels, experts_->counts()[expert], others, ranges.rows());
  expert_statistics->stand_ins[expert] = ranges.rows();
}

}  // namespace ballast::calib
