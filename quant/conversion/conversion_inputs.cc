#include "quant/conversion/conversion_inputs.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "ballast/calibrate.h"
#include "ballast/error.h"
#include "calib/calibration_samples.h"
#include "calib/prefix.h"
#include "model/source/prefix.h"
#include "model/source/sentence_modules.h"
#include "quant/passes/outlier_channels.h"
#include "text/tokenizer.h"
#include "text/tokenizer_check.h"

namespace ballast::quant {

namespace {

/// Returns the tokens of at most `most` of the statistics' samples, evenly selected, each after the prefix.
/// Measurements include the prefix, because the rounded matrices compute its keys and values, too.
std::vector<int> used_samples(const Statistics& statistics, std::size_t most) {
  const std::size_t count = std::min(most, statistics.samples);
  std::vector<int> tokens;
  for (std::size_t i = 0; i < count; ++i) {
    const auto first =
        statistics.tokens.begin() + static_cast<std::ptrdiff_t>(i * statistics.samples / count * statistics.length);
    tokens.insert(tokens.end(), statistics.prefix.begin(), statistics.prefix.end());
    tokens.insert(tokens.end(), first, first + static_cast<std::ptrdiff_t>(statistics.length));
  }
  return tokens;
}

}  // namespace

ConversionInputs::ConversionInputs(std::filesystem::path model, const ConvertOptions& options)
    : model_(std::move(model)), options_(options), source_(model_), calibration_(options.calibration) {
  if (source_.quantization()) {
    throw Error(model_.string(), "is quantized already; convert the original instead, rounding twice loses accuracy");
  }
  source_.set_compute(calibration_.compute);
  check_recipe();
  check_tokenizer();
  check_text_vectors();
  calibration_.prefix = recipe().prefix;
  calibration_.state_folder.clear();
  prefix_ = calib::fixed_prefix(source_, recipe().prefix);
  calibration_.length = calib::fitting_length(calibration_.length, source_.spec(), most_prefix_tokens());
}

void ConversionInputs::check_recipe() const {
  if (chooses_formats() && !recipe().linears.quantizes()) {
    throw Error("target size", "needs a recipe that makes integers, not " + format_name(recipe().linears));
  }
  if (chooses_formats() && !source_.spec().has_head) {
    throw Error("target size", "needs the effect of formats on predictions, and " + model_.string() +
                                   " has no head that makes them: name formats");
  }
  if (chooses_formats() && recipe().activations == ActivationType::kInt8 && !recipe().activation_groups) {
    throw Error("target size", "needs scales of activations per token and group: formats are weighed with these");
  }
  if (recipe().untie_head && !source_.spec().has_head) throw Error("untie_head", model_.string() + " has no head");
  if (options_.calibration.samples == 0) throw Error("samples", "must be at least 1");
}

// Checks the tokenizer: one that does not belong to the embedding would give nonsense without any error.
void ConversionInputs::check_tokenizer() const {
  const auto tokenizer = text::load_tokenizer(source_.checkpoint());
  if (tokenizer == nullptr) return;  // tiny test models have none
  text::check_tokenizer(*tokenizer, source_.spec().vocab_size, source_.config(), model_.string());
  for (const std::string& warning : tokenizer->warnings()) tell(model_.string() + ": " + warning);
}

/// Checks files that are copied unchanged, and would fail only when they are used.
void ConversionInputs::check_text_vectors() const {
  if (source_.spec().text_vectors) model::TextDense(source_.checkpoint().path(), *source_.spec().text_vectors, {});
}

/// Returns whether statistics are needed for more than finding the prefix.
bool ConversionInputs::uses_statistics() const {
  return runs_samples() || splits_outliers(recipe()) || recipe().smooth ||
         recipe().rounding != Recipe::Rounding::kNearest;
}

bool ConversionInputs::needs_statistics() const {
  return uses_statistics() || (recipe().prefix.automatic && source_.prefix_tokens().empty());
}

std::size_t ConversionInputs::most_prefix_tokens() const {
  return std::max(calib::most_tokens(recipe().prefix), prefix_.size());
}

void ConversionInputs::gather(const std::filesystem::path& output, const Progress& progress) {
  const std::filesystem::path beside = jobs::JobState::folder_beside(output);
  calibration_.state_folder = beside.parent_path() / (beside.filename().string() + "-calibration");
  if (options_.statistics) {
    statistics_ = load_statistics(*options_.statistics);
    check_prefix_of_statistics();
  } else if (needs_statistics()) {
    statistics_ = calibrate(model_, calibration_, progress);
    prefix_ = statistics_->prefix;
  }
  if (statistics_) samples_ = used_samples(*statistics_, options_.calibration.samples);
  if (runs_samples()) jobs::check_sharing(samples().count(), ranks());
}

void ConversionInputs::discard_calibration() const {
  discard_calibration_state(calibration_);
}

/// Refuses statistics with another prefix, which are not valid for this one.
void ConversionInputs::check_prefix_of_statistics() {
  const std::string context = options_.statistics->string();
  const bool find = recipe().prefix.automatic && prefix_.empty();
  if (find) {
    prefix_ = statistics_->prefix.empty() ? calib::massive_prefix(source_, *statistics_, context) : statistics_->prefix;
    model::check_prefix(source_.spec(), prefix_, context);
  }
  if (statistics_->prefix == prefix_ || (find && !uses_statistics())) return;
  const std::string measured = prefix_name({.tokens = statistics_->prefix});
  const std::string wanted = prefix_name({.tokens = prefix_});
  const std::string other = source_.prefix_tokens().empty() ? "convert with --prefix " + measured + ", or " : "";
  throw Error(context, "was measured with the prefix " + measured + ", not " + wanted + ": " + other +
                           "calibrate with --prefix " + wanted);
}

samples::SampleTokens ConversionInputs::samples() const {
  if (!statistics_) return {};
  return {.ids = samples_, .length = prefix_.size() + statistics_->length, .prefix = prefix_.size()};
}

samples::SampleSharing ConversionInputs::sharing() const {
  return {.ranks = &ranks(),
          .order = options_.deterministic ? jobs::SumOrder::kFixed : jobs::SumOrder::kAny,
          .samples = samples().count()};
}

PreparationInput ConversionInputs::preparation(const Allocation* allocation) const {
  return {.source = source_, .recipe = recipe(), .statistics = statistics(), .allocation = allocation};
}

std::string ConversionInputs::weighing_key() const {
  Recipe weighed = recipe();
  weighed.target_bytes = Recipe::kNaturalSize;
  weighed.int16_activation_fraction = 0;
  return key_with(weighed).digest();
}

jobs::JobKey ConversionInputs::key_with(const Recipe& recipe) const {
  jobs::JobKey key(calibration_.compute);
  key.add("job", "convert")
      .add("output", output_format_name(options_.output_format))
      .add_model(calibration_.model_identity, model_)
      .add("recipe", recipe_json(recipe));
  // Identified by content, because Python writes a new file for each call.
  if (options_.statistics) key.add_content("statistics", *options_.statistics);
  key.add("samples", options_.calibration.samples).add("length", calibration_.length);
  key.add("seed", calibration_.seed).add("probe samples", options_.probe_samples);
  for (const auto& text : calibration_.text_files) key.add_file(text);
  return key.add("deterministic", options_.deterministic ? 1 : 0);
}

JobPlan ConversionInputs::forecast(const Stages& stages, SamplePrecision precision) const {
  samples::SampleSharing expected = sharing();
  std::size_t length = samples().length;
  if (!statistics_) {
    expected.samples = options_.calibration.samples;
    length = most_prefix_tokens() + calibration_.length;
  }
  return forecast_conversion(source_.spec(),
                             {.rounds_with_samples = rounds_with_samples(),
                              .corrects_drift = corrects_drift(),
                              .chooses_formats = stages.chooses_formats,
                              .runs_to_head = stages.runs_to_head,
                              .precision = precision,
                              .smooths = recipe().smooth,
                              .activations = recipe().activations,
                              .probe_samples = options_.probe_samples},
                             length, expected);
}

Ranks& ConversionInputs::ranks() const {
  return ranks_or_single(options_.calibration.ranks);
}

void ConversionInputs::tell(const std::string& message) const {
  if (options_.calibration.on_message && ranks().first()) options_.calibration.on_message(message);
}

void ConversionInputs::tell(const JobPlan& plan) const {
  if (options_.calibration.on_plan && ranks().first()) options_.calibration.on_plan(plan);
}

}  // namespace ballast::quant
