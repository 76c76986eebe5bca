#include "ballast/sweep.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "ballast/error.h"
#include "ballast/inspect.h"
#include "ballast/statistics.h"
#include "calib/calibration_samples.h"
#include "eval/reference_logits.h"
#include "eval/sweep/sweep_folder.h"
#include "eval/sweep/sweep_row.h"
#include "eval/text_chunks.h"
#include "files/text_file.h"
#include "jobs/job_key.h"
#include "jobs/job_state.h"
#include "jobs/sharded_sum.h"
#include "model/model.h"

namespace ballast {

namespace {

namespace fs = std::filesystem;

// Returns a hash of weights and tokenizer, independent of their path.
std::string model_identity(const fs::path& path) {
  const model::ModelSource source(path);
  jobs::JobKey key;
  key.add("model", eval::content_identity(source.checkpoint()));
  for (const text::TokenizerFile& file : model::require_tokenizer(source)->files()) {
    key.add(file.name, file.content);
  }
  return key.digest();
}

std::string name_of(const fs::path& path) {
  const fs::path whole = fs::weakly_canonical(path);
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

void check_recipes(const std::vector<SweepRecipe>& recipes) {
  if (recipes.empty()) throw Error("recipes", "are missing: name at least one");
  std::set<std::string> names;
  for (const SweepRecipe& recipe : recipes) {
    // The name is also a file name.
    const bool plain = std::ranges::all_of(recipe.name, [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-' || c == '+' || c == '@';
    });
    if (!plain || recipe.name.empty() || recipe.name.front() == '.') {
      throw Error("recipe '" + recipe.name + "'", "needs a name of letters, digits and . _ - + @");
    }
    if (!names.insert(recipe.name).second) throw Error("recipe '" + recipe.name + "'", "is named twice");
  }
}

std::vector<SweepFormat> formats_of(const ConvertReport& report) {
  std::map<std::string, SweepFormat> by_name;
  for (const TensorGroupReport& group : report.groups) {
    // The suffix of a format, the number of outlier columns, differs from tensor to tensor.
    const std::string name = group.format.substr(0, group.format.find(" + "));
    SweepFormat& format = by_name[name];
    format.name = name;
    format.weights += group.weights;
    format.bytes += group.bytes_after;
  }
  std::vector<SweepFormat> formats;
  for (auto& [name, format] : by_name) formats.push_back(std::move(format));
  std::ranges::stable_sort(formats, std::greater<>(), &SweepFormat::weights);
  return formats;
}

class SweepRun {
 public:
  SweepRun(const fs::path& model, const fs::path& directory, const SweepOptions& options, const Progress& progress)
      : model_(model),
        options_(options),
        progress_(progress),
        ranks_(ranks_or_single(options.ranks)),
        summary_(checked_model()),
        folder_(made_folder(directory)) {}

  Sweep run() {
    model_identity_ = model_identity(model_);
    provide_statistics();
    shared_key_.add("job", "sweep").add("model", model_identity_).add_content("statistics", statistics_);
    shared_key_.add_content("text", options_.text_file).add("context", options_.context).add("chunks", options_.chunks);
    result_.model = name_of(model_);
    result_.original_bytes = summary_.file_bytes;
    result_.original_bits_per_weight = summary_.bits_per_weight;
    result_.text = name_of(options_.text_file);
    result_.context = options_.context;
    result_.program = jobs::program_identity();
    for (const SweepRecipe& recipe : options_.recipes) result_.rows.push_back(load(recipe));
    ranks_.barrier();  // every rank has checked before one writes
    for (std::size_t begin = 0; begin < result_.rows.size(); begin += ranks_.size()) run_round(begin);
    const bool complete = std::ranges::all_of(result_.rows, &std::string::empty, &SweepRow::error);
    if (complete && ranks_.first()) folder_.clean(options_.keep_models);
    return std::move(result_);
  }

 private:
  // Is called by one rank: a half-made folder would not be recognized as a sweep's.
  eval::SweepFolder made_folder(const fs::path& directory) const {
    if (ranks_.first()) eval::SweepFolder{directory};
    ranks_.barrier();
    return eval::SweepFolder(directory);
  }

  // Checks everything in advance that would make every recipe fail.
  ModelSummary checked_model() const {
    if (options_.benchmark && ranks_.size() > 1) throw Error("speed", "is measured by one process, not by several");
    check_recipes(options_.recipes);
    const std::string evaluation_text = files::read_text_file(options_.text_file);
    for (const fs::path& text : options_.calibration.text_files) files::read_text_file(text);
    ModelSummary summary = inspect(model_);
    const std::string place = model_.string();
    if (!summary.recipe.empty()) throw Error(place, "is quantized already: sweep the original");
    if (!summary.spec.causal) throw Error(place, "is an encoder, which has no perplexity to compare");
    if (!summary.spec.has_head) throw Error(place, model::kNoHead);
    const model::ModelSource source(model_);
    eval::check_chunk_size(options_.context, source.context_length());
    const auto tokenizer = model::require_tokenizer(source);
    eval::cut_text(evaluation_text, options_.text_file.string(), *tokenizer, options_.context, options_.chunks);
    for (const SweepRecipe& recipe : options_.recipes) {
      const CachedPrefix& prefix = recipe.conversion.recipe.prefix;
      if (!prefix.automatic && prefix.tokens.empty()) continue;
      throw Error(recipe.name,
                  "gives the model a prefix: a sweep measures recipes that leave its function alone; "
                  "convert and evaluate it by itself");
    }
    return summary;
  }

  void provide_statistics() {
    statistics_ = options_.statistics.value_or(folder_.statistics());
    if (!options_.statistics) calibrate_once();
    const Statistics statistics = load_statistics(statistics_);
    result_.calibration = std::to_string(statistics.samples) + " samples of " + std::to_string(statistics.length) +
                          " tokens, " + statistics.text;
  }

  void calibrate_once() {
    CalibrateOptions own = options_.calibration;
    own.compute = options_.compute;
    own.length = calib::fitting_length(own.length, summary_.spec, summary_.prefix.size());
    jobs::JobKey key(options_.compute);
    key.add("job", "calibrate").add("model", model_identity_);
    for (const fs::path& text : own.text_files) key.add_content("text", text);
    key.add("samples", own.samples).add("length", own.length).add("seed", own.seed);
    const bool is_there = jobs::least_of_ranks(ranks_, folder_.holds(statistics_, key.digest()) ? 1 : 0) == 1;
    if (is_there) return;
    stage_ = "all recipes";
    own.state_folder = jobs::JobState::folder_beside(statistics_);
    own.ranks = &ranks_;
    const Statistics statistics = calibrate(model_, own, progress());
    if (ranks_.first()) {
      folder_.begin(statistics_);
      save_statistics(statistics, statistics_, true);
      folder_.complete(statistics_, key.digest());
    }
    ranks_.barrier();  // the others' files may be needed until the statistics exist
    discard_calibration_state(own);
  }

  std::string key_of(const SweepRecipe& recipe) const {
    jobs::JobKey key = shared_key_;
    key.add("recipe", recipe_json(recipe.conversion.recipe));
    key.add("samples", recipe.conversion.calibration.samples).add("probe samples", recipe.conversion.probe_samples);
    key.add("deterministic", recipe.conversion.deterministic ? 1 : 0);
    return key.digest();
  }

  /// Returns the known results of a recipe.
  SweepRow load(const SweepRecipe& recipe) const {
    SweepRow row = folder_.load(key_of(recipe)).value_or(SweepRow{});
    row.name = recipe.name;
    row.recipe = recipe_json(recipe.conversion.recipe);
    return row;
  }

  /// Runs a step; an error that concerns one recipe does not stop the others.
  template <typename Step>
  void keep_error(std::size_t index, const Step& step) {
    SweepRow& row = result_.rows[index];
    if (!row.error.empty()) return;
    stage_ = row.name + " (" + std::to_string(index + 1) + " of " + std::to_string(result_.rows.size()) + ")";
    try {
      step();
    } catch (const Error& error) {
      row.error = error.what();
    }
  }

  bool is_timed(const SweepRow& row) const { return row.benchmark || !options_.benchmark; }

  /// Copies the result of an equal earlier recipe. If models are kept, each recipe is converted, because a model has
  /// its recipe's name.
  void take_equal(std::size_t index) {
    SweepRow& row = result_.rows[index];
    const std::string key = key_of(options_.recipes[index]);
    for (std::size_t other = 0; other < index; ++other) {
      if (key_of(options_.recipes[other]) != key) continue;
      const SweepRow& known = result_.rows[other];
      row.formats = known.formats;
      row.evaluation = known.evaluation;
      row.benchmark = known.benchmark;
      row.error = known.error;
      return;
    }
  }

  // Each step is stored as soon as it is complete.
  void convert_model(std::size_t index) {
    const SweepRecipe& recipe = options_.recipes[index];
    SweepRow& row = result_.rows[index];
    if (row.evaluation && is_timed(row) && !options_.keep_models) return;
    const std::string key = key_of(recipe);
    const fs::path converted = folder_.model(recipe.name);
    if (!row.formats.empty() && folder_.holds(converted, key)) return;
    folder_.begin(converted);
    row.formats = formats_of(convert(model_, converted, conversion(recipe), progress()));
    folder_.store(key, row);
    folder_.complete(converted, key);
  }

  /// Converts one recipe on each rank; then all ranks measure each model, which is removed afterwards.
  void run_round(std::size_t begin) {
    const std::size_t end = std::min(begin + ranks_.size(), result_.rows.size());
    const std::size_t own = begin + ranks_.rank();
    for (std::size_t i = begin; i < end; ++i) take_equal(i);
    if (own < end) keep_error(own, [&] { convert_model(own); });
    share_conversions(begin, end);
    for (std::size_t i = begin; i < end; ++i) {
      take_equal(i);  // one that is equal to another of this round
      keep_error(i, [&] { measure(i); });
      if (ranks_.first() && !options_.keep_models) folder_.remove(folder_.model(options_.recipes[i].name));
    }
  }

  /// Sends the known results of a recipe from the rank that converts it to all ranks, so that all continue in the same
  /// way.
  void share_conversions(std::size_t begin, std::size_t end) {
    std::string own;
    if (begin + ranks_.rank() < end) {
      const SweepRow& row = result_.rows[begin + ranks_.rank()];
      const nlohmann::json told = {{"row", eval::row_json(row)}, {"error", row.error}};
      own = told.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    }
    const std::vector<std::string> parts = ranks_.gather(own);
    for (std::size_t i = begin; i < end; ++i) {
      const nlohmann::json told = nlohmann::json::parse(parts[i - begin]);
      SweepRow& row = result_.rows[i];
      SweepRow known = eval::parse_row(files::JsonReader(told["row"], row.name));
      row.formats = std::move(known.formats);
      row.evaluation = std::move(known.evaluation);
      row.benchmark = std::move(known.benchmark);
      row.error = told["error"];
    }
  }

  void measure(std::size_t index) {
    SweepRow& row = result_.rows[index];
    const fs::path converted = folder_.model(row.name);
    if (!row.evaluation) {
      row.evaluation = evaluate(converted, comparison(), progress());
      store(index);
    }
    if (!is_timed(row)) {
      BenchmarkOptions timing = *options_.benchmark;
      timing.model.compute = options_.compute;
      row.benchmark = benchmark(converted, timing, progress());
      store(index);
    }
  }

  void store(std::size_t index) const {
    if (ranks_.first()) folder_.store(key_of(options_.recipes[index]), result_.rows[index]);
  }

  ConvertOptions conversion(const SweepRecipe& recipe) const {
    ConvertOptions conversion = recipe.conversion;
    conversion.statistics = statistics_;
    conversion.format_costs = format_costs_;
    conversion.calibration.compute = options_.compute;
    conversion.replace = true;
    return conversion;
  }

  EvaluateOptions comparison() const {
    EvaluateOptions comparison;
    comparison.text_file = options_.text_file;
    comparison.reference = model_;
    comparison.reference_cache = folder_.reference();
    comparison.context = options_.context;
    comparison.chunks = options_.chunks;
    comparison.ranks = &ranks_;
    comparison.model.compute = options_.compute;
    return comparison;
  }

  Progress progress() const {
    if (!progress_) return {};
    return [this](std::string_view stage, std::size_t done, std::size_t total) {
      progress_(stage_ + ": " + std::string(stage), done, total);
    };
  }

  const fs::path& model_;
  const SweepOptions& options_;
  const Progress& progress_;
  Ranks& ranks_;
  std::shared_ptr<FormatCosts> format_costs_ = make_format_costs();  ///< shared by recipes that differ only in size
  ModelSummary summary_;
  eval::SweepFolder folder_;
  std::string model_identity_;
  fs::path statistics_;
  jobs::JobKey shared_key_{options_.compute};  ///< the settings that all recipes share
  std::string stage_;                          ///< the current step, for progress
  Sweep result_;
};

}  // namespace

Sweep sweep(const fs::path& model, const fs::path& directory, const SweepOptions& options, const Progress& progress) {
  return SweepRun(model, directory, options, progress).run();
}

}  // namespace ballast
