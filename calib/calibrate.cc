#include "ballast/calibrate.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "ballast/error.h"
#include "calib/accumulators.h"
#include "calib/block_accumulators.h"
#include "calib/calibration_plan.h"
#include "calib/calibration_samples.h"
#include "calib/calibration_state.h"
#include "calib/massive_activation_tracker.h"
#include "calib/prefix.h"
#include "jobs/job_state.h"
#include "jobs/sharded_sum.h"
#include "kernels/statistics.h"
#include "model/forward/forward.h"
#include "model/forward/shared_keys.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace ballast {

namespace {

using calib::BlockAccumulators;
using calib::ChannelRanges;
using calib::OutputMagnitudes;
using calib::Samples;
using jobs::IndexRange;
using jobs::JobState;

/// Of the layer with the most.
std::size_t most_heads(const ModelSpec& spec) {
  std::size_t heads = 0;
  for (const LayerSpec& layer : spec.layers) {
    if (layer.attention() != nullptr) heads = std::max(heads, layer.attention()->heads);
  }
  return heads;
}

jobs::JobKey key_of(const std::filesystem::path& model, const CalibrateOptions& options, const std::vector<int>& prefix,
                    const Ranks& ranks) {
  jobs::JobKey key;
  key.add("job", "calibrate").add_model(options.model_identity, model);
  for (const auto& text : options.text_files) key.add_file(text);
  key.add("samples", options.samples).add("length", options.length).add("seed", options.seed);
  key.add("prefix", prefix_name({.tokens = prefix})).add("rank", ranks.rank()).add("ranks", ranks.size());
  return key;
}

/// Where the progress of the run is kept that finds an automatic prefix.
std::filesystem::path finding_folder(const std::filesystem::path& state_folder) {
  return state_folder.parent_path() / (state_folder.filename().string() + "-prefix");
}

class Calibration {
 public:
  /// `stage` is what progress says. `known`: statistics of the same samples, or null.
  Calibration(const model::ModelSource& source, const CalibrateOptions& options, std::vector<int> prefix,
              std::string stage, const Progress& progress, const Statistics* known = nullptr)
      : source_(source),
        options_(options),
        prefix_(std::move(prefix)),
        stage_(std::move(stage)),
        known_(known),
        ranks_(ranks_or_single(options.ranks)),
        progress_(progress),
        tokenizer_(text::load_tokenizer(source_.checkpoint())),
        keys_of_rows_(source.spec()) {}

  /// Keeps what is done in the folder, unless that is empty.
  Statistics run(const std::filesystem::path& state_folder) {
    if (!state_folder.empty()) {
      state_.emplace(JobState::folder_of(state_folder, ranks_),
                     key_of(source_.checkpoint().path(), options_, prefix_, ranks_));
    }
    const ModelSpec& spec = source_.spec();
    outer_.emplace(source_.spec(), source_.parts());
    load_samples();
    jobs::check_sharing(samples_.size(), ranks_);
    mine_ = jobs::samples_of_rank(ranks_.rank(), ranks_.size(), samples_.size());
    hidden_.resize((mine_.size() * options_.length + prefix_.size()) * hidden_size());
    shared_keys_.resize((mine_.size() * options_.length + prefix_.size()) * keys_of_rows_.row_size());
    massive_rows_.assign(mine_.size() * options_.length, 0);
    const std::optional<std::size_t> restored =
        state_ ? calib::restore_progress(*state_, ranks_, progress_so_far()) : std::nullopt;
    if (!restored) begin();
    for (std::size_t layer = restored.value_or(0) + 1; layer <= spec.layers.size(); ++layer) {
      run_block(layer);
      if (state_) calib::save_progress(*state_, ranks_, layer, progress_so_far());
    }
    if (progress_) progress_(stage_, spec.layers.size(), spec.layers.size());
    measure_head();
    findings_.describe(statistics_);
    if (state_ && !state_->problem().empty() && ranks_.first() && options_.on_message) {
      options_.on_message(state_->problem());
    }
    return std::move(statistics_);
  }

 private:
  void load_samples() {
    calib::ChosenSamples chosen = known_ != nullptr ? calib::samples_of(*known_)
                                                    : calib::choose_samples(source_, *outer_, options_, ranks_,
                                                                            state_ ? &*state_ : nullptr, progress_);
    samples_ = std::move(chosen.samples);
    statistics_.text = std::move(chosen.text);
  }

  calib::CalibrationProgress progress_so_far() {
    return {hidden_, shared_keys_, massive_rows_, findings_, statistics_};
  }

  std::size_t hidden_size() const { return source_.spec().hidden_size; }
  std::size_t row_of(std::size_t sample) const { return (sample - mine_.begin) * options_.length; }
  float* hidden_of(std::size_t sample) { return hidden_.data() + row_of(sample) * hidden_size(); }
  std::span<float> shared_keys_of(std::size_t first_row, std::size_t rows) {
    return std::span(shared_keys_).subspan(first_row * keys_of_rows_.row_size(), rows * keys_of_rows_.row_size());
  }
  std::span<float> shared_keys_of_prefix() { return shared_keys_of(mine_.size() * options_.length, prefix_.size()); }

  /// What a layer gets of tokens themselves.
  model::StridedRows token_inputs(std::size_t layer, std::span<const std::vector<int>> sequences) {
    token_inputs_.clear();
    for (const std::vector<int>& ids : sequences) outer_->embedding().add_token_inputs(ids, token_inputs_);
    return model::token_inputs_of_layer(source_.spec(), token_inputs_.data(), layer);
  }

  float* hidden_of_prefix() { return hidden_.data() + mine_.size() * options_.length * hidden_size(); }

  void begin() {
    statistics_.model = std::filesystem::path(source_.checkpoint().path()).filename().string();
    statistics_.samples = samples_.size();
    statistics_.length = options_.length;
    statistics_.seed = options_.seed;
    statistics_.heads = most_heads(source_.spec());
    statistics_.prefix = prefix_;
    for (const std::vector<int>& sample : samples_) {
      statistics_.tokens.insert(statistics_.tokens.end(), sample.begin(), sample.end());
    }
    outer_->embedding().embed(prefix_, 0, hidden_of_prefix());
    OutputMagnitudes output(hidden_size());
    for (std::size_t s = mine_.begin; s < mine_.end; ++s) {
      outer_->embedding().embed(samples_[s], prefix_.size(), hidden_of(s));
      output.add(hidden_of(s), s * options_.length, std::span(massive_rows_).subspan(row_of(s), options_.length));
    }
    finish_output(0, output);
  }

  void run_block(std::size_t layer) {
    const model::BlockWeights block = source_.block(layer - 1);
    const model::SequenceState after_prefix = run_prefix(layer, block);
    BlockAccumulators sums(source_.spec(), layer - 1, {samples_.size(), options_.length}, ranks_);
    const std::size_t at_once = std::max<std::size_t>(1, calib::kBatchTokens / options_.length);
    const IndexRange shards = jobs::shards_of(ranks_.rank(), ranks_.size());
    for (std::size_t shard = shards.begin; shard < shards.end; ++shard) {
      const IndexRange samples = jobs::samples_of_shard(shard, samples_.size());
      for (std::size_t first = samples.begin; first < samples.end; first += at_once) {
        run_batch(layer, block, after_prefix, {first, std::min(first + at_once, samples.end)}, shard, sums);
      }
      sums.end_shard(shard);
    }
    finish_block(layer, block, sums);
    source_.release_block(layer - 1);
  }

  /// The state with which every sample enters the block. What follows does not change the prefix: it passes once.
  model::SequenceState run_prefix(std::size_t layer, const model::BlockWeights& block) {
    const ModelSpec& spec = source_.spec();
    model::SequenceState state(spec, layer - 1,
                               {.type = kernels::CacheType::kF32, .capacity = prefix_.size() + options_.length});
    if (prefix_.empty()) return state;
    const model::BatchSequence sequence = {.tokens = prefix_.size(), .state = &state};
    rope_.look_up({&sequence, 1}, angles_);
    keys_of_rows_.give(layer - 1, shared_keys_of_prefix(), state);
    model::forward_block(spec, block, layer - 1, angles_, {&sequence, 1}, 0, hidden_of_prefix(), activations_,
                         {.token_inputs = token_inputs(layer - 1, {&prefix_, 1})});
    keys_of_rows_.keep(layer - 1, activations_, shared_keys_of_prefix());
    state.advance(prefix_.size());
    return state;
  }

  void run_batch(std::size_t layer, const model::BlockWeights& block, const model::SequenceState& after_prefix,
                 IndexRange samples, std::size_t shard, BlockAccumulators& sums) {
    const ModelSpec& spec = source_.spec();
    if (progress_)
      progress_(stage_, layer - 1, spec.layers.size());  // a block may take long: an interrupt ends it here
    std::vector<model::SequenceState> states(samples.size(), after_prefix);
    std::vector<model::BatchSequence> batch;
    batch.reserve(samples.size());
    for (std::size_t i = 0; i < states.size(); ++i) {
      batch.push_back({.tokens = options_.length, .state = &states[i]});
      keys_of_rows_.give(layer - 1, shared_keys_of(row_of(samples.begin + i), options_.length), states[i]);
    }
    rope_.look_up(batch, angles_);
    const std::span<const std::vector<int>> texts = std::span(samples_).subspan(samples.begin, samples.size());
    model::forward_block(
        spec, block, layer - 1, angles_, batch, 0, hidden_of(samples.begin), activations_,
        {.record_inputs = true, .first_token_share = true, .token_inputs = token_inputs(layer - 1, texts)});
    keys_of_rows_.keep(layer - 1, activations_,
                       shared_keys_of(row_of(samples.begin), samples.size() * options_.length));

    // A token counts as massive when it carries massive values into the block or out of it.
    const std::span<std::uint8_t> flags =
        std::span(massive_rows_).subspan(row_of(samples.begin), samples.size() * options_.length);
    std::vector<std::uint8_t> massive(flags.begin(), flags.end());
    sums.output.add(hidden_of(samples.begin), samples.begin * options_.length, flags);
    for (std::size_t r = 0; r < flags.size(); ++r) massive[r] |= flags[r];

    sums.add(activations_, massive, samples.begin, shard);
  }

  void finish_block(std::size_t layer, const model::BlockWeights& block, BlockAccumulators& sums) {
    for (LinearInputStatistics& input : sums.finish_inputs(block, activations_)) {
      statistics_.inputs.push_back(std::move(input));
    }
    if (sums.expert_statistics) statistics_.experts.push_back(*std::move(sums.expert_statistics));
    statistics_.key_values.push_back({sums.keys.finish(ranks_), sums.values.finish(ranks_)});
    // In a decoder the first token's query sees only itself: it says nothing about sinks.
    const std::size_t silent = source_.spec().causal && prefix_.empty() ? samples_.size() : 0;
    const auto queries = static_cast<double>(samples_.size() * options_.length - silent);
    for (const double sum : sums.first_token_share.finish(ranks_)) {
      statistics_.sink_share.push_back(static_cast<float>((sum - static_cast<double>(silent)) / queries));
    }
    statistics_.sink_share.resize(layer * statistics_.heads);
    finish_output(layer, sums.output);
  }

  void finish_input(calib::InputRanges input) {
    statistics_.inputs.push_back({.linears = std::move(input.linears), .channels = input.ranges.finish(ranks_)});
  }

  void finish_output(std::size_t layer, OutputMagnitudes& output) {
    if (!kernels::all_finite(hidden_.data(), hidden_.size())) {
      throw Error(source_.checkpoint().path().string(),
                  "layer " + std::to_string(layer) + " gives values that are not finite");
    }
    output.merge(ranks_);
    statistics_.layers.push_back(findings_.add(
        layer, output, [this](std::size_t sample, std::size_t count) { return first_rows(sample, count); }));
  }

  // Of a sample that one of the ranks holds.
  std::vector<float> first_rows(std::size_t sample, std::size_t count) {
    std::vector<float> rows(count * hidden_size());
    if (sample >= mine_.begin && sample < mine_.end) std::copy_n(hidden_of(sample), rows.size(), rows.begin());
    std::size_t owner = 0;
    while (jobs::samples_of_rank(owner, ranks_.size(), samples_.size()).end <= sample) ++owner;
    ranks_.broadcast(std::as_writable_bytes(std::span(rows)), owner);
    return rows;
  }

  void measure_head() {
    const model::OuterWeights& outer = *outer_;
    calib::InputRanges input{{outer.head_linear().name}, ChannelRanges(hidden_size())};
    calib::InputRanges transform{{}, ChannelRanges(hidden_size())};
    if (outer.preparation().transform()) transform.linears.push_back(outer.preparation().transform()->name);
    std::vector<float> prepared(options_.length * hidden_size());
    const IndexRange shards = jobs::shards_of(ranks_.rank(), ranks_.size());
    for (std::size_t shard = shards.begin; shard < shards.end; ++shard) {
      const IndexRange samples = jobs::samples_of_shard(shard, samples_.size());
      for (std::size_t s = samples.begin; s < samples.end; ++s) {
        const auto massive = std::span(massive_rows_).subspan(row_of(s), options_.length);
        outer.preparation().prepare(hidden_of(s), options_.length, prepared.data(), activations_.quantized);
        input.ranges.add(prepared.data(), hidden_size(), massive);
        if (outer.preparation().transform()) transform.ranges.add(hidden_of(s), hidden_size(), massive);
      }
      input.ranges.end_shard(shard);
      transform.ranges.end_shard(shard);
    }
    if (outer.preparation().transform()) finish_input(std::move(transform));
    finish_input(std::move(input));
  }

  const model::ModelSource& source_;
  const CalibrateOptions& options_;
  std::vector<int> prefix_;
  std::string stage_;
  const Statistics* known_;
  Ranks& ranks_;
  const Progress& progress_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  model::SharedKeys keys_of_rows_;
  std::optional<model::OuterWeights> outer_;  ///< from run() on
  model::RopeTable rope_{source_.spec()};
  model::RopeAngles angles_;
  std::optional<JobState> state_;
  Samples samples_;                  ///< of all ranks
  IndexRange mine_;                  ///< this rank's
  std::vector<float> token_inputs_;  ///< of a batch
  std::vector<float> shared_keys_;   ///< by keys_of_rows_, a row for each of hidden_
  std::vector<float> hidden_;        ///< the residual stream between blocks: [mine][length][hidden], [prefix][hidden]
  std::vector<std::uint8_t> massive_rows_;  ///< tokens that leave the last block with massive values
  model::BlockActivations activations_;
  calib::MassiveActivationTracker findings_{samples_, prefix_, tokenizer_.get()};
  Statistics statistics_;
};

/// With the massive tokens that a first run finds as a prefix.
Statistics calibrate_with_found_prefix(const model::ModelSource& source, const CalibrateOptions& options,
                                       const Progress& progress) {
  const std::filesystem::path folder =
      options.state_folder.empty() ? options.state_folder : finding_folder(options.state_folder);
  const Statistics bare = Calibration(source, options, {}, "finding the prefix", progress).run(folder);
  std::vector<int> prefix = calib::massive_prefix(source, bare, source.checkpoint().path().string());
  return Calibration(source, options, std::move(prefix), "calibrating", progress, &bare).run(options.state_folder);
}

}  // namespace

Statistics calibrate(const std::filesystem::path& model, const CalibrateOptions& asked, const Progress& progress) {
  const model::ModelSource source(model);
  CalibrateOptions options = asked;
  const std::vector<int> prefix = calib::fixed_prefix(source, options.prefix);
  const std::size_t most_prefix_tokens = std::max(prefix.size(), calib::most_tokens(options.prefix));
  if (options.length == 0) options.length = calib::fitting_length(0, source.spec(), most_prefix_tokens);
  calib::check_options(options, source, prefix.size(), ranks_or_single(options.ranks));
  const bool finds_prefix = options.prefix.automatic && prefix.empty();
  const std::size_t context = source.spec().context_length;
  if (finds_prefix && options.length + most_prefix_tokens > context) {
    throw Error("length", std::to_string(options.length) + " leaves no room for a prefix in the model's context of " +
                              std::to_string(context));
  }
  return jobs::keep_progress_for_retry(
      [&] {
        if (finds_prefix) return calibrate_with_found_prefix(source, options, progress);
        return Calibration(source, options, prefix, "calibrating", progress).run(options.state_folder);
      },
      [&] { discard_calibration_state(options); });
}

std::filesystem::path state_folder_beside(const std::filesystem::path& output) {
  return JobState::folder_beside(output);
}

void discard_calibration_state(const CalibrateOptions& options) {
  if (options.state_folder.empty()) return;
  JobState::remove_folders(options.state_folder);
  JobState::remove_folders(finding_folder(options.state_folder));
}

}  // namespace ballast
