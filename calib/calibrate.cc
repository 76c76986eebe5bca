#include "ballast/calibrate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "ballast/error.h"
#include "calib/accumulators.h"
#include "calib/samples.h"
#include "kernels/statistics.h"
#include "model/forward.h"
#include "model/model.h"
#include "model/tokenizer/tokenizer.h"

namespace ballast {

namespace {

using calib::ChannelRanges;
using calib::OutputMagnitudes;
using calib::Peak;
using calib::Samples;

// Tokens that pass a block at once: enough to amortize the unpacking of weights, while activations stay in the cache.
constexpr std::size_t kBatchTokens = 1024;

constexpr std::size_t kTopValues = 10;

// Size of the map for the report.
constexpr std::size_t kMapTokens = 32;
constexpr std::size_t kMapLargestChannels = 16;
constexpr std::size_t kMapChannels = 80;

/// The first tokens' activations of the sample that holds the largest value seen so far.
struct MapCandidate {
  float largest = 0;
  std::size_t layer = 0;
  std::size_t sample = 0;
  std::vector<float> rows;
};

/// A linear input that is being measured.
struct InputRanges {
  std::vector<std::string> linears;
  ChannelRanges ranges;
};

class Calibration {
 public:
  Calibration(const std::filesystem::path& model, const CalibrateOptions& options, const Progress& progress)
      : source_(model),
        options_(options),
        progress_(progress),
        tokenizer_(model::load_tokenizer(source_.checkpoint())) {}

  Statistics run() {
    check_options();
    load_samples();
    const ModelSpec& spec = source_.spec();
    statistics_.model = std::filesystem::path(source_.checkpoint().path()).filename().string();
    statistics_.samples = samples_.size();
    statistics_.length = options_.length;
    statistics_.seed = options_.seed;
    statistics_.heads = spec.heads;
    const model::OuterWeights outer(source_);
    embed(outer);
    for (std::size_t layer = 1; layer <= spec.layers; ++layer) {
      run_block(layer);
      if (progress_) progress_("calibrating", layer, spec.layers);
    }
    measure_head(outer);
    summarize();
    return std::move(statistics_);
  }

 private:
  void check_options() const {
    if (options_.samples == 0) throw Error("samples", "must be at least 1");
    if (options_.length < 2) throw Error("length", "must be at least 2");
    if (options_.length > source_.spec().context_length) {
      throw Error("length", std::to_string(options_.length) + " is more than the model's context of " +
                                std::to_string(source_.spec().context_length));
    }
  }

  void load_samples() {
    if (options_.text_files.empty()) {
      samples_ = calib::samples_from_model(source_.checkpoint().path(), options_, progress_);
      statistics_.text = "sampled from the model";
      return;
    }
    samples_ = calib::samples_from_text(*model::require_tokenizer(source_), options_);
    for (const auto& path : options_.text_files) {
      statistics_.text += (statistics_.text.empty() ? "" : ", ") + path.filename().string();
    }
  }

  std::size_t rows() const { return samples_.size() * options_.length; }
  std::size_t hidden_size() const { return source_.spec().hidden_size; }
  float* hidden_of(std::size_t sample) { return hidden_.data() + sample * options_.length * hidden_size(); }

  void embed(const model::OuterWeights& outer) {
    hidden_.resize(rows() * hidden_size());
    massive_rows_.assign(rows(), 0);
    OutputMagnitudes output(hidden_size());
    for (std::size_t s = 0; s < samples_.size(); ++s) {
      outer.embed(samples_[s], 0, hidden_of(s));
      output.add(hidden_of(s), s * options_.length,
                 std::span(massive_rows_).subspan(s * options_.length, options_.length));
    }
    finish_output(0, output);
  }

  void run_block(std::size_t layer) {
    const model::BlockWeights block = source_.block(layer - 1);
    const ModelSpec& spec = source_.spec();
    std::vector<InputRanges> inputs;
    ChannelRanges key_ranges(spec.kv_heads * spec.head_size);
    ChannelRanges value_ranges(spec.kv_heads * spec.value_size);
    OutputMagnitudes output(hidden_size());
    std::vector<double> share(spec.heads);

    const std::size_t at_once = std::max<std::size_t>(1, kBatchTokens / options_.length);
    const std::vector<std::uint8_t> entering = massive_rows_;
    for (std::size_t first = 0; first < samples_.size(); first += at_once) {
      const std::size_t count = std::min(at_once, samples_.size() - first);
      std::vector<model::KeyValueCache> caches;
      for (std::size_t i = 0; i < count; ++i) {
        caches.emplace_back(model::cache_shape(spec),
                            model::KeyValueCacheOptions{.type = kernels::CacheType::kF32, .capacity = options_.length});
      }
      std::vector<model::BatchSequence> batch;
      batch.reserve(count);
      for (model::KeyValueCache& cache : caches) batch.push_back({.tokens = options_.length, .cache = &cache});
      rope_.look_up(batch, angles_);
      model::forward_block(spec, block, layer - 1, angles_, batch, 0, hidden_of(first), activations_,
                           {.record_inputs = true, .first_token_share = true});

      // A token counts as massive when it carries massive values into the block or out of it.
      const std::size_t first_row = first * options_.length;
      const std::size_t count_rows = count * options_.length;
      const std::span<std::uint8_t> leaving = std::span(massive_rows_).subspan(first_row, count_rows);
      output.add(hidden_of(first), first_row, leaving);
      std::vector<std::uint8_t> massive(leaving.begin(), leaving.end());
      for (std::size_t r = 0; r < count_rows; ++r) massive[r] |= entering[first_row + r];

      add_inputs(massive, inputs);
      key_ranges.add(activations_.keys.rows, activations_.keys.stride, massive);
      value_ranges.add(activations_.values.rows, activations_.values.stride, massive);
      for (std::size_t i = 0; i < activations_.first_token_share.size(); ++i) {
        share[i % spec.heads] += activations_.first_token_share[i];
      }
    }
    source_.release_block(layer - 1);

    for (InputRanges& input : inputs) finish_input(std::move(input));
    statistics_.key_values.push_back({key_ranges.finish(), value_ranges.finish()});
    // In a decoder the first token's query sees only itself: it says nothing about sinks.
    const std::size_t silent = spec.causal ? samples_.size() : 0;
    const auto queries = static_cast<double>(samples_.size() * options_.length - silent);
    for (const double sum : share) {
      statistics_.sink_share.push_back(static_cast<float>((sum - static_cast<double>(silent)) / queries));
    }
    finish_output(layer, output);
  }

  // What the block's linears read in the batch that just passed; `massive` has an entry per token.
  void add_inputs(const std::vector<std::uint8_t>& massive, std::vector<InputRanges>& inputs) {
    for (std::size_t i = 0; i < activations_.inputs.size(); ++i) {
      const model::LinearInput& input = activations_.inputs[i];
      const std::size_t cols = input.linears.front()->cols();
      if (i == inputs.size()) {
        std::vector<std::string> names;
        for (const model::Linear* linear : input.linears) names.push_back(linear->name);
        inputs.push_back({std::move(names), ChannelRanges(cols)});
      }
      std::vector<std::uint8_t> flags;
      for (const std::size_t token : input.tokens) flags.push_back(massive[token]);
      if (input.count > 0) inputs[i].ranges.add(input.rows, cols, input.tokens.empty() ? massive : flags);
    }
  }

  void finish_input(InputRanges input) {
    statistics_.inputs.push_back({.linears = std::move(input.linears), .channels = input.ranges.finish()});
  }

  void finish_output(std::size_t layer, const OutputMagnitudes& output) {
    if (!kernels::all_finite(hidden_.data(), hidden_.size())) {
      throw Error(source_.checkpoint().path().string(),
                  "layer " + std::to_string(layer) + " gives values that are not finite");
    }
    LayerStatistics layer_statistics;
    layer_statistics.layer = layer;
    layer_statistics.median = output.median();
    for (const Peak& peak : output.top(kTopValues)) layer_statistics.top.push_back(describe(peak));
    const TopValue& largest = layer_statistics.top.front();
    layer_statistics.massive = calib::is_massive(std::abs(largest.value), layer_statistics.median);
    for (const Peak& peak : output.massive()) {
      const std::size_t sample = peak.row / options_.length;
      const std::size_t position = peak.row % options_.length;
      massive_channels_[peak.channel].insert(sample);
      const int token = position == 0 ? MassiveToken::kFirst : samples_[sample][position];
      MassiveSeen& seen = massive_tokens_[token];
      seen.position = seen.samples.empty() ? position : std::min(seen.position, position);
      seen.samples.insert(sample);
    }
    if (std::abs(largest.value) > map_.largest) {
      const std::size_t values = std::min(kMapTokens, options_.length) * hidden_size();
      const float* rows = hidden_of(largest.sample);
      map_ = {std::abs(largest.value), layer, largest.sample, {rows, rows + values}};
    }
    statistics_.layers.push_back(std::move(layer_statistics));
  }

  TopValue describe(const Peak& peak) const {
    TopValue value;
    value.value = peak.value;
    value.sample = peak.row / options_.length;
    value.position = peak.row % options_.length;
    value.token = samples_[value.sample][value.position];
    value.token_text = token_text(value.token);
    value.channel = peak.channel;
    return value;
  }

  std::string token_text(int token) const {
    return tokenizer_ == nullptr ? "" : model::replace_invalid_utf8(tokenizer_->token_bytes(token));
  }

  void measure_head(const model::OuterWeights& outer) {
    InputRanges input{{outer.head_linear().name}, ChannelRanges(hidden_size())};
    InputRanges transform{{}, ChannelRanges(hidden_size())};
    if (outer.head_transform()) transform.linears.push_back(outer.head_transform()->name);
    std::vector<float> prepared(options_.length * hidden_size());
    for (std::size_t s = 0; s < samples_.size(); ++s) {
      const auto massive = std::span(massive_rows_).subspan(s * options_.length, options_.length);
      outer.prepare_head(hidden_of(s), options_.length, prepared.data(), activations_.quantized);
      input.ranges.add(prepared.data(), hidden_size(), massive);
      if (outer.head_transform()) transform.ranges.add(hidden_of(s), hidden_size(), massive);
    }
    if (outer.head_transform()) finish_input(std::move(transform));
    finish_input(std::move(input));
  }

  void summarize() {
    for (const auto& [channel, samples] : massive_channels_) {
      statistics_.massive_channels.push_back({.channel = channel, .samples = samples.size()});
    }
    for (const auto& [token, seen] : massive_tokens_) {
      statistics_.massive_tokens.push_back({.token = token,
                                            .position = seen.position,
                                            .token_text = token == MassiveToken::kFirst ? "" : token_text(token),
                                            .samples = seen.samples.size()});
    }
    std::ranges::stable_sort(statistics_.massive_tokens, std::ranges::greater{}, &MassiveToken::samples);
    draw_map();
  }

  void draw_map() {
    const std::size_t tokens = map_.rows.size() / hidden_size();
    std::vector<std::pair<float, std::size_t>> largest;
    for (std::size_t c = 0; c < hidden_size(); ++c) {
      float absmax = 0;
      for (std::size_t t = 0; t < tokens; ++t) absmax = std::max(absmax, std::abs(map_.rows[t * hidden_size() + c]));
      largest.emplace_back(absmax, c);
    }
    std::ranges::stable_sort(largest, std::ranges::greater{}, &std::pair<float, std::size_t>::first);
    std::set<std::size_t> channels;
    for (std::size_t i = 0; i < std::min(kMapLargestChannels, largest.size()); ++i) channels.insert(largest[i].second);
    const std::size_t step = std::max<std::size_t>(1, hidden_size() / (kMapChannels - kMapLargestChannels));
    for (std::size_t c = 0; c < hidden_size() && channels.size() < kMapChannels; c += step) channels.insert(c);

    statistics_.map.layer = map_.layer;
    statistics_.map.channels.assign(channels.begin(), channels.end());
    for (std::size_t t = 0; t < tokens; ++t) {
      statistics_.map.tokens.push_back(token_text(samples_[map_.sample][t]));
      for (const std::size_t c : channels) {
        statistics_.map.magnitudes.push_back(std::abs(map_.rows[t * hidden_size() + c]));
      }
    }
  }

  struct MassiveSeen {
    std::size_t position = 0;
    std::set<std::size_t> samples;
  };

  model::ModelSource source_;
  const CalibrateOptions& options_;
  const Progress& progress_;
  std::unique_ptr<model::Tokenizer> tokenizer_;
  model::RopeTable rope_{source_.spec()};
  model::RopeAngles angles_;
  Samples samples_;
  std::vector<float> hidden_;               ///< [samples][length][hidden], the residual stream between blocks
  std::vector<std::uint8_t> massive_rows_;  ///< tokens that leave the last block with massive values
  model::BlockActivations activations_;
  MapCandidate map_;
  std::map<std::size_t, std::set<std::size_t>> massive_channels_;
  std::map<int, MassiveSeen> massive_tokens_;
  Statistics statistics_;
};

}  // namespace

Statistics calibrate(const std::filesystem::path& model, const CalibrateOptions& options, const Progress& progress) {
  return Calibration(model, options, progress).run();
}

}  // namespace ballast
