#include "ballast/calibrate.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "ballast/error.h"
#include "calib/accumulators.h"
#include "calib/calibrate.h"
#include "calib/calibration_plan.h"
#include "calib/calibration_samples.h"
#include "calib/calibration_state.h"
#include "calib/massive_activation_tracker.h"
#include "calib/prefix.h"
#include "calib/range_observer.h"
#include "calib/stream_observers.h"
#include "jobs/job_state.h"
#include "jobs/sharded_sum.h"
#include "kernels/statistics.h"
#include "model/model.h"
#include "samples/block_runner.h"
#include "samples/sample_tokens.h"
#include "text/tokenizer.h"

namespace ballast {

namespace {

using calib::OutputMagnitudes;
using calib::RangeObserver;
using calib::Samples;
using jobs::IndexRange;
using jobs::JobState;
using samples::BlockRunner;
using samples::SampleSharing;
using samples::SampleTokens;
using samples::StreamRows;

/// Returns the heads of the layer with the most.
std::size_t most_heads(const ModelSpec& spec) {
  std::size_t heads = 0;
  for (const LayerSpec& layer : spec.layers) {
    if (layer.attention() != nullptr) heads = std::max(heads, layer.attention()->heads);
  }
  return heads;
}

jobs::JobKey key_of(const model::ModelSource& source, const CalibrateOptions& options, const std::vector<int>& prefix,
                    const Ranks& ranks) {
  jobs::JobKey key(options.compute);
  key.add("job", "calibrate").add_model(options.model_identity, source.paths());
  for (const auto& text : options.text_files) key.add_file(text);
  key.add("samples", options.samples).add("length", options.length).add("seed", options.seed);
  key.add("prefix", prefix_name({.tokens = prefix})).add("rank", ranks.rank()).add("ranks", ranks.size());
  return key;
}

/// Returns the folder for the progress of the run that finds an automatic prefix.
std::filesystem::path finding_folder(const std::filesystem::path& state_folder) {
  return state_folder.parent_path() / (state_folder.filename().string() + "-prefix");
}

class Calibration {
 public:
  /// `stage` is the name in progress reports. `known`: statistics of the same samples, or null.
  Calibration(const std::shared_ptr<const model::ModelSource>& source, const CalibrateOptions& options,
              std::vector<int> prefix, std::string stage, const Progress& progress, const Statistics* known = nullptr)
      : opened_(source),
        source_(*source),
        options_(options),
        prefix_(std::move(prefix)),
        stage_(std::move(stage)),
        known_(known),
        ranks_(ranks_or_single(options.ranks)),
        progress_(progress),
        tokenizer_(model::read_tokenizer(source_)),
        // A block may take long, so an interrupt can end it here.
        runner_(source_.spec(), options.length, [this] { report_progress(); }) {}

  /// Stores the progress in the folder, unless its path is empty.
  Statistics run(const std::filesystem::path& state_folder) {
    if (!state_folder.empty()) {
      state_.emplace(JobState::folder_of(state_folder, ranks_), key_of(source_, options_, prefix_, ranks_));
    }
    const ModelSpec& spec = source_.spec();
    outer_.emplace(source_.spec(), source_.parts());
    load_samples();
    place_samples();
    const std::optional<std::size_t> restored =
        state_ ? calib::restore_progress(*state_, ranks_, progress_so_far()) : std::nullopt;
    if (!restored) begin();
    for (layers_done_ = restored.value_or(0); layers_done_ < spec.layers.size();) {
      run_block(layers_done_ + 1);
      ++layers_done_;
      if (state_) calib::save_progress(*state_, ranks_, layers_done_, progress_so_far());
    }
    report_progress();
    measure_head();
    findings_.describe(statistics_);
    source_.checkpoint().check_whole();
    if (state_ && !state_->problem().empty() && ranks_.first() && options_.on_message) {
      options_.on_message(state_->problem());
    }
    return std::move(statistics_);
  }

 private:
  void report_progress() const {
    if (progress_) progress_(stage_, layers_done_, source_.spec().layers.size());
  }

  void load_samples() {
    calib::ChosenSamples chosen = known_ != nullptr ? calib::samples_of(*known_)
                                                    : calib::choose_samples(opened_, *outer_, options_, ranks_,
                                                                            state_ ? &*state_ : nullptr, progress_);
    samples_ = std::move(chosen.samples);
    statistics_.text = std::move(chosen.text);
    for (const std::vector<int>& sample : samples_) ids_.insert(ids_.end(), sample.begin(), sample.end());
    jobs::check_sharing(samples_.size(), ranks_);
    sharing_ = {.ranks = &ranks_, .order = jobs::SumOrder::kFixed, .samples = samples_.size()};
  }

  SampleTokens own_tokens() const { return samples::own_samples({ids_, options_.length}, sharing_); }

  /// Does not own the embedding, which belongs to outer_.
  std::shared_ptr<const model::Embedding> embedding() const { return {std::shared_ptr<void>(), &outer_->embedding()}; }

  /// Allocates rows for all tokens, and sets the values of the prefix.
  void place_samples() {
    if (!prefix_.empty()) runner_.set_prefix(embedding(), prefix_);
    runner_.set_origin(embedding(), own_tokens());
    runner_.resize(own_tokens());
    massive_rows_.assign(own_tokens().ids.size(), 0);
  }

  calib::CalibrationProgress progress_so_far() {
    std::vector<std::span<float>> rows;
    for (StreamRows* stream : {&runner_.rows(), &runner_.prefix_rows()}) {
      for (const std::span<float> part : stream->all()) rows.push_back(part);
    }
    return {std::move(rows), massive_rows_, findings_, statistics_};
  }

  std::size_t hidden_size() const { return source_.spec().hidden_size; }
  std::size_t row_of(std::size_t sample) const { return (sample - sharing_.own().begin) * options_.length; }
  const float* hidden_of(std::size_t sample) const {
    return runner_.rows().hidden.data() + row_of(sample) * hidden_size();
  }

  void begin() {
    statistics_.model = std::filesystem::path(source_.checkpoint().path()).filename().string();
    statistics_.samples = samples_.size();
    statistics_.length = options_.length;
    statistics_.seed = options_.seed;
    statistics_.heads = most_heads(source_.spec());
    statistics_.prefix = prefix_;
    statistics_.tokens = ids_;
    runner_.rows() = {};
    runner_.embed(embedding(), own_tokens());
    calib::EmbeddingObserver observer(hidden_size(), options_.length, sharing_, massive_rows_);
    runner_.observe_stream(sharing_, {&observer});
    finish_output(0, observer.output);
  }

  void run_block(std::size_t layer) {
    report_progress();
    const model::BlockWeights block = source_.block(layer - 1);
    RangeObserver observer(source_.spec(), layer - 1, options_.length, sharing_, massive_rows_);
    runner_.observe(block, layer - 1, sharing_, BlockRunner::Then::kAdvance,
                    {.record_inputs = true, .first_token_share = true}, {&observer});
    finish_block(layer, block, observer);
    source_.release_block(layer - 1);
  }

  void finish_block(std::size_t layer, const model::BlockWeights& block, RangeObserver& measured) {
    for (RangeObserver::FinishedInput& input : measured.finish_inputs(block, runner_.scratch())) {
      LinearInputStatistics& named = statistics_.inputs.emplace_back();
      for (const model::Part& part : input.readers) {
        named.linears.push_back(source_.name(part.role, layer - 1, part.expert));
      }
      named.channels = std::move(input.channels);
    }
    if (measured.expert_statistics) statistics_.experts.push_back(*std::move(measured.expert_statistics));
    statistics_.key_values.push_back({measured.keys.finish(ranks_), measured.values.finish(ranks_)});
    // In a decoder the first token's query sees only itself, so it does not count for sinks.
    const bool sees_itself = source_.spec().is_causal(layer - 1) && !source_.spec().layers[layer - 1].reads_source();
    const std::size_t silent = sees_itself && prefix_.empty() ? samples_.size() : 0;
    const auto queries = static_cast<double>(samples_.size() * options_.length - silent);
    for (const double sum : measured.first_token_share.finish(ranks_)) {
      statistics_.sink_share.push_back(static_cast<float>((sum - static_cast<double>(silent)) / queries));
    }
    statistics_.sink_share.resize(layer * statistics_.heads);
    finish_output(layer, measured.output);
  }

  void finish_output(std::size_t layer, OutputMagnitudes& output) {
    source_.checkpoint().check_whole();
    for (const std::vector<float>* rows : {&runner_.rows().hidden, &runner_.prefix_rows().hidden}) {
      if (kernels::all_finite(rows->data(), rows->size())) continue;
      throw Error(source_.checkpoint().path().string(),
                  "layer " + std::to_string(layer) + " gives values that are not finite");
    }
    output.merge(ranks_);
    statistics_.layers.push_back(findings_.add(
        layer, output, [this](std::size_t sample, std::size_t count) { return first_rows(sample, count); }));
  }

  // Returns the first rows of a sample that one of the ranks holds.
  std::vector<float> first_rows(std::size_t sample, std::size_t count) {
    std::vector<float> rows(count * hidden_size());
    const IndexRange own = sharing_.own();
    if (sample >= own.begin && sample < own.end) std::copy_n(hidden_of(sample), rows.size(), rows.begin());
    std::size_t owner = 0;
    while (jobs::samples_of_rank(owner, ranks_.size(), samples_.size()).end <= sample) ++owner;
    ranks_.broadcast(std::as_writable_bytes(std::span(rows)), owner);
    return rows;
  }

  void measure_head() {
    calib::HeadObserver observer(*outer_, source_.spec(), options_.length, massive_rows_, runner_.scratch());
    runner_.observe_stream(sharing_, {&observer});
    for (LinearInputStatistics& input : observer.finish(ranks_)) statistics_.inputs.push_back(std::move(input));
  }

  std::shared_ptr<const model::ModelSource> opened_;
  const model::ModelSource& source_;  ///< the same
  const CalibrateOptions& options_;
  std::vector<int> prefix_;
  std::string stage_;
  const Statistics* known_;
  Ranks& ranks_;
  const Progress& progress_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::optional<model::EmbeddingAndHead> outer_;  ///< set by run()
  std::optional<JobState> state_;
  Samples samples_;       ///< of all ranks
  std::vector<int> ids_;  ///< the samples' tokens, consecutive
  SampleSharing sharing_;
  std::vector<std::uint8_t> massive_rows_;  ///< this rank's tokens with massive values after the last block
  std::size_t layers_done_ = 0;
  BlockRunner runner_;
  calib::MassiveActivationTracker findings_{samples_, prefix_, tokenizer_.get(), source_.spec().encoder};
  Statistics statistics_;
};

/// Uses the massive tokens of a first run as the prefix.
Statistics calibrate_with_found_prefix(const std::shared_ptr<const model::ModelSource>& source,
                                       const CalibrateOptions& options, const Progress& progress) {
  const std::filesystem::path folder =
      options.state_folder.empty() ? options.state_folder : finding_folder(options.state_folder);
  const Statistics bare = Calibration(source, options, {}, "finding the prefix", progress).run(folder);
  std::vector<int> prefix = calib::massive_prefix(*source, bare, source->checkpoint().path().string());
  return Calibration(source, options, std::move(prefix), "calibrating", progress, &bare).run(options.state_folder);
}

}  // namespace

Statistics calib::calibrate(const std::shared_ptr<const model::ModelSource>& opened, const CalibrateOptions& asked,
                            const Progress& progress) {
  const model::ModelSource& source = *opened;
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
        if (finds_prefix) return calibrate_with_found_prefix(opened, options, progress);
        return Calibration(opened, options, prefix, "calibrating", progress).run(options.state_folder);
      },
      [&] { discard_calibration_state(options); });
}

Statistics calibrate(const std::filesystem::path& model, const CalibrateOptions& options, const Progress& progress) {
  const auto source = std::make_shared<model::ModelSource>(model);
  source->set_compute(options.compute);
  return calib::calibrate(source, options, progress);
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
