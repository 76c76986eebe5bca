#include "samples/block_runner.h"

#include <algorithm>
#include <utility>

namespace ballast::samples {

StreamRows StreamRows::zeros() const {
  return {.hidden = std::vector<float>(hidden.size()),
          .shared_keys = std::vector<float>(shared_keys.size()),
          .resting = std::vector<float>(resting.size())};
}

void StreamRows::append(const StreamRows& others) {
  hidden.insert(hidden.end(), others.hidden.begin(), others.hidden.end());
  shared_keys.insert(shared_keys.end(), others.shared_keys.begin(), others.shared_keys.end());
  resting.insert(resting.end(), others.resting.begin(), others.resting.end());
}

BlockRunner::BlockRunner(const ModelSpec& spec, std::size_t length, std::function<void()> check_cancelled)
    : spec_(spec), length_(length), check_cancelled_(std::move(check_cancelled)), rope_(spec), shared_keys_(spec) {}

std::size_t BlockRunner::batch_samples() const {
  return std::max<std::size_t>(1, kBatchTokens / length_);
}

BlockRunner::Samples BlockRunner::Samples::part(std::size_t begin, std::size_t most) const {
  const std::size_t taken = std::min(most, count - begin);
  const auto own = [&](std::span<float> rows) {
    return rows.subspan(rows.size() / count * begin, rows.size() / count * taken);
  };
  return {first + begin, taken, own(hidden), own(shared_keys), own(resting)};
}

BlockRunner::Samples BlockRunner::all() {
  return {0, rows_.hidden.size() / (length_ * spec_.hidden_size), rows_.hidden, rows_.shared_keys, rows_.resting};
}

void BlockRunner::set_prefix(std::shared_ptr<const model::Embedding> embedding, std::span<const int> ids) {
  prefix_.assign(ids.begin(), ids.end());
  prefix_rows_.hidden.resize(ids.size() * spec_.hidden_size);
  prefix_rows_.shared_keys.resize(ids.size() * shared_keys_.row_size());
  embedding->embed(prefix_, 0, prefix_rows_.hidden.data());
  if (spec_.token_inputs) embedding_ = std::move(embedding);
}

void BlockRunner::set_origin(std::shared_ptr<const model::Embedding> embedding, const SampleTokens& tokens) {
  if (!spec_.token_inputs) return;
  embedding_ = std::move(embedding);
  tokens_ = tokens;
}

void BlockRunner::embed(std::shared_ptr<const model::Embedding> embedding, const SampleTokens& tokens) {
  const std::size_t size = length_ * spec_.hidden_size;
  std::vector<float>& hidden = rows_.hidden;
  for (std::size_t s = 0; s < tokens.count(); ++s) {
    hidden.resize(hidden.size() + size);
    float* row = hidden.data() + hidden.size() - size;
    if (!spec_.encoder) {
      embedding->embed(tokens.of(s), prefix_.size(), row);
      continue;
    }
    embedding->embed(tokens.of(s), 0, row, model::Embedding::Text::kSource);
    rows_.resting.resize(hidden.size());
    embed_decoder(*embedding, tokens.of(s), rows_.resting.data() + hidden.size() - size);
  }
  rows_.shared_keys.resize(hidden.size() / spec_.hidden_size * shared_keys_.row_size());
  if (tokens_.ids.empty()) set_origin(std::move(embedding), tokens);
}

/// Embeds a sample as the decoder reads it: after the token that begins its text.
void BlockRunner::embed_decoder(const model::Embedding& embedding, std::span<const int> sample, float* hidden) const {
  std::vector<int> ids = {spec_.encoder->start_token};
  ids.insert(ids.end(), sample.begin(), sample.end() - 1);
  embedding.embed(ids, 0, hidden);
}

/// The encoder's output rests from now on, and the decoder's text runs.
void BlockRunner::begin_decoder(const Samples& batch) const {
  std::ranges::swap_ranges(batch.hidden, batch.resting);
}

void BlockRunner::resize(const SampleTokens& tokens) {
  rows_.hidden.resize(tokens.ids.size() * spec_.hidden_size);
  rows_.resting.resize(spec_.encoder ? rows_.hidden.size() : 0);
  rows_.shared_keys.resize(tokens.ids.size() * shared_keys_.row_size());
}

/// Returns the layer's own inputs of the tokens.
model::StridedRows BlockRunner::token_inputs_of(const Samples& batch, std::size_t layer) {
  if (!spec_.token_inputs) return {};
  token_inputs_.clear();
  for (std::size_t i = 0; i < batch.count; ++i) {
    embedding_->add_token_inputs(tokens_.of((batch.first + i) % tokens_.count()), token_inputs_);
  }
  return model::token_inputs_of_layer(spec_, token_inputs_.data(), layer);
}

void BlockRunner::forward(const model::BlockWeights& block, std::size_t layer,
                          std::span<const model::BatchSequence> sequences, std::span<float> hidden,
                          const model::ForwardOptions& options) {
  rope_.look_up(sequences, angles_);
  model::forward_block(spec_, block, layer, angles_, sequences, 0, hidden.data(), activations_, options);
}

/// Runs the prefix through the block and keeps the state with which every sample begins.
void BlockRunner::run_prefix(const model::BlockWeights& block, std::size_t layer) {
  if (prefix_.empty()) return;
  after_prefix_.emplace(
      spec_, layer,
      model::KeyValueCacheOptions{.type = kernels::CacheType::kF32, .capacity = prefix_.size() + length_});
  const model::BatchSequence sequence = {.tokens = prefix_.size(), .state = &*after_prefix_};
  shared_keys_.give(layer, prefix_rows_.shared_keys, *after_prefix_);
  model::ForwardOptions options;
  if (spec_.token_inputs) {
    token_inputs_.clear();
    embedding_->add_token_inputs(prefix_, token_inputs_);
    options.token_inputs = model::token_inputs_of_layer(spec_, token_inputs_.data(), layer);
  }
  forward(block, layer, {&sequence, 1}, prefix_rows_.hidden, options);
  shared_keys_.keep(layer, activations_, prefix_rows_.shared_keys);
  after_prefix_->advance(prefix_.size());
}

void BlockRunner::run_batch(const model::BlockWeights& block, std::size_t layer, const Samples& batch,
                            const model::ForwardOptions& options) {
  if (spec_.encoder && layer == spec_.encoder->layers) begin_decoder(batch);
  std::vector<model::SequenceState> states;
  for (std::size_t i = 0; i < batch.count; ++i) {
    if (after_prefix_) {
      states.push_back(*after_prefix_);
    } else {
      states.emplace_back(spec_, layer,
                          model::KeyValueCacheOptions{.type = kernels::CacheType::kF32, .capacity = length_});
    }
    shared_keys_.give(layer, batch.part(i, 1).shared_keys, states.back());
    if (!spec_.layers[layer].reads_source()) continue;
    states.back().set_source(std::make_shared<model::EncodedSource>(spec_, layer, batch.part(i, 1).resting));
  }
  std::vector<model::BatchSequence> sequences;
  sequences.reserve(batch.count);
  for (model::SequenceState& state : states) sequences.push_back({.tokens = length_, .state = &state});
  model::ForwardOptions own_options = options;
  own_options.token_inputs = token_inputs_of(batch, layer);
  forward(block, layer, sequences, batch.hidden, own_options);
  shared_keys_.keep(layer, activations_, batch.shared_keys);
}

void BlockRunner::run_batches(const model::BlockWeights& block, std::size_t layer, const Samples& samples,
                              const model::ForwardOptions& options, const Visit& visit) {
  for (std::size_t begin = 0; begin < samples.count; begin += batch_samples()) {
    const Samples batch = samples.part(begin, batch_samples());
    run_batch(block, layer, batch, options);
    if (visit) visit(batch);
    if (check_cancelled_) check_cancelled_();
  }
}

void BlockRunner::advance(const model::BlockWeights& block, std::size_t layer, std::size_t at_once) {
  run_prefix(block, layer);
  const Samples samples = all();
  const std::size_t most = std::max<std::size_t>(1, std::min(at_once, samples.count));
  for (std::size_t begin = 0; begin < samples.count; begin += most) {
    run_batches(block, layer, samples.part(begin, most), {}, {});
  }
}

ObservedBatch BlockRunner::observed(const Samples& batch, const model::ForwardOptions& options) const {
  return {.first = batch.first,
          .count = batch.count,
          .activations = &activations_,
          .hidden = options.mlp_input_only ? std::span<const float>() : batch.hidden};
}

void BlockRunner::observe(const model::BlockWeights& block, std::size_t layer, const SampleSharing& sharing, Then then,
                          const model::ForwardOptions& options, std::initializer_list<Observer*> observers) {
  run_prefix(block, layer);
  const Visit visit = [&](const Samples& batch) {
    for (Observer* observer : observers) observer->add(observed(batch, options));
  };
  const std::size_t first = sharing.own().begin;
  for_each_shard(sharing, [&](std::size_t shard, jobs::IndexRange range) {
    if (range.size() > 0) {
      const Samples samples = all().part(range.begin - first, range.size());
      for (std::size_t begin = 0; begin < samples.count; begin += batch_samples()) {
        const Samples batch = samples.part(begin, batch_samples());
        if (then == Then::kAdvance) {
          run_batches(block, layer, batch, options, visit);
          continue;
        }
        std::vector<float> hidden(batch.hidden.begin(), batch.hidden.end());
        std::vector<float> shared_keys(batch.shared_keys.begin(), batch.shared_keys.end());
        std::vector<float> resting(batch.resting.begin(), batch.resting.end());
        run_batches(block, layer, {batch.first, batch.count, hidden, shared_keys, resting}, options, visit);
      }
    }
    for (Observer* observer : observers) observer->end_shard(shard);
  });
}

void BlockRunner::observe_stream(const SampleSharing& sharing, std::initializer_list<Observer*> observers) {
  const std::size_t first = sharing.own().begin;
  for_each_shard(sharing, [&](std::size_t shard, jobs::IndexRange range) {
    for (std::size_t sample = range.begin; sample < range.end; ++sample) {
      for (Observer* observer : observers) observer->add(look(sample - first, 1));
      if (check_cancelled_) check_cancelled_();
    }
    for (Observer* observer : observers) observer->end_shard(shard);
  });
}

ObservedBatch BlockRunner::run(const model::BlockWeights& block, std::size_t layer, std::size_t first,
                               std::size_t count, const model::ForwardOptions& options) {
  const Samples batch = all().part(first, count);
  run_batch(block, layer, batch, options);
  return observed(batch, options);
}

ObservedBatch BlockRunner::look(std::size_t first, std::size_t count) {
  return observed(all().part(first, count), {});
}

}  // namespace ballast::samples
