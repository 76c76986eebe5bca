#include "ballast/sweep.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <utility>

#include "ballast/error.h"
#include "ballast/inspect.h"
#include "ballast/statistics.h"
#include "calib/calibration_samples.h"
#include "eval/reference_logits.h"
#include "eval/sweep/sweep_folder.h"
#include "eval/text_chunks.h"
#include "files/text_file.h"
#include "jobs/job_key.h"
#include "jobs/job_state.h"
#include "model/model.h"

namespace ballast {

namespace {

namespace fs = std::filesystem;

// Weights and tokenizer, wherever they lie.
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
    // The name is a file's, too.
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
    // What follows the format itself, the number of outlier columns, differs from tensor to tensor.
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
      : model_(model), options_(options), progress_(progress), summary_(checked_model()), folder_(directory) {}

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
    for (const SweepRecipe& recipe : options_.recipes) {
      stage_ = recipe.name + " (" + std::to_string(result_.rows.size() + 1) + " of " +
               std::to_string(options_.recipes.size()) + ")";
      result_.rows.push_back(measure(recipe));
    }
    const bool complete = std::ranges::all_of(result_.rows, &std::string::empty, &SweepRow::error);
    if (complete) folder_.clean(options_.keep_models);
    return std::move(result_);
  }

 private:
  // What would make every recipe fail is told once, before anything is done.
  ModelSummary checked_model() const {
    check_recipes(options_.recipes);
    const std::string evaluation_text = files::read_text_file(options_.text_file);
    for (const fs::path& text : options_.calibration.text_files) files::read_text_file(text);
    ModelSummary summary = inspect(model_);
    const std::string place = model_.string();
    if (!summary.recipe.empty()) throw Error(place, "is quantized already: sweep the original");
    if (!summary.spec.causal) throw Error(place, "is an encoder, which has no perplexity to compare");
    const model::ModelSource source(model_);
    if (options_.context > source.context_length()) {
      throw Error("context", std::to_string(options_.context) + " is more than the model's " +
                                 std::to_string(source.context_length()));
    }
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
    own.length = calib::fitting_length(own.length, summary_.spec, summary_.prefix.size());
    jobs::JobKey key;
    key.add("job", "calibrate").add("model", model_identity_);
    for (const fs::path& text : own.text_files) key.add_content("text", text);
    key.add("samples", own.samples).add("length", own.length).add("seed", own.seed);
    if (folder_.holds(statistics_, key.digest())) return;
    stage_ = "all recipes";
    own.state_folder = jobs::JobState::folder_beside(statistics_);
    folder_.begin(statistics_);
    save_statistics(calibrate(model_, own, progress()), statistics_, true);
    discard_calibration_state(own);
    folder_.complete(statistics_, key.digest());
  }

  std::string key_of(const SweepRecipe& recipe) const {
    jobs::JobKey key = shared_key_;
    key.add("recipe", recipe_json(recipe.conversion.recipe));
    key.add("samples", recipe.conversion.calibration.samples).add("probe samples", recipe.conversion.probe_samples);
    key.add("deterministic", recipe.conversion.deterministic ? 1 : 0);
    return key.digest();
  }

  SweepRow measure(const SweepRecipe& recipe) {
    const std::string key = key_of(recipe);
    SweepRow row = folder_.load(key).value_or(SweepRow{});
    row.name = recipe.name;
    row.recipe = recipe_json(recipe.conversion.recipe);
    try {
      measure_rest(recipe, key, row);
    } catch (const Error& error) {
      row.error = error.what();
    }
    if (!options_.keep_models) folder_.remove(folder_.model(recipe.name));
    return row;
  }

  // Each step is kept as soon as it is done.
  void measure_rest(const SweepRecipe& recipe, const std::string& key, SweepRow& row) {
    const bool timed = row.benchmark || !options_.benchmark;
    if (row.evaluation && timed && !options_.keep_models) return;
    const fs::path converted = folder_.model(recipe.name);
    if (row.formats.empty() || !folder_.holds(converted, key)) {
      folder_.begin(converted);
      row.formats = formats_of(convert(model_, converted, conversion(recipe), progress()));
      folder_.store(key, row);
      folder_.complete(converted, key);
    }
    if (!row.evaluation) {
      row.evaluation = evaluate(converted, comparison(), progress());
      folder_.store(key, row);
    }
    if (!timed) {
      row.benchmark = benchmark(converted, *options_.benchmark, progress());
      folder_.store(key, row);
    }
  }

  ConvertOptions conversion(const SweepRecipe& recipe) const {
    ConvertOptions conversion = recipe.conversion;
    conversion.statistics = statistics_;
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
  ModelSummary summary_;
  eval::SweepFolder folder_;
  std::string model_identity_;
  fs::path statistics_;
  jobs::JobKey shared_key_;  ///< what does not differ between the recipes
  std::string stage_;        ///< what the steps under way belong to
  Sweep result_;
};

}  // namespace

Sweep sweep(const fs::path& model, const fs::path& directory, const SweepOptions& options, const Progress& progress) {
  return SweepRun(model, directory, options, progress).run();
}

}  // namespace ballast
