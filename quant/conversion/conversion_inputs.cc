#include "quant/conversion/conversion_inputs.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "ballast/error.h"
#include "calib/calibrate.h"
#include "calib/calibration_samples.h"
#include "calib/prefix.h"
#include "model/source/prefix.h"
#include "model/source/sentence_modules.h"
#include "quant/conversion/natural_size.h"
#include "quant/quantize/outlier_channels.h"
#include "quant/search/candidates.h"
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

ConversionInputs::ConversionInputs(std::shared_ptr<const model::ModelSource> source, const ConvertOptions& options,
                                   const ModelFormat& format)
    : source_(std::move(source)),
      options_(options),
      format_(format),
      recipe_(options.recipe),
      draft_head_(this->source(), recipe_, format),
      calibration_(options.calibration) {
  SizedPlan sized = resolve_target_bytes(this->source(), options.recipe, format);
  recipe_ = std::move(sized.recipe);
  if (options.recipe.target_bytes == Recipe::kNaturalSize && recipe_.target_bytes > 0) {
    for (const ModulePlan& module : draft_head_.plan()) recipe_.target_bytes += format.bytes(module);
  }
  plan_ = std::move(sized.plan);
  if (this->source().quantization()) {
    throw Error(model_name(), "is quantized already; convert the original instead, rounding twice loses accuracy");
  }
  check_recipe();
  check_tokenizer();
  check_text_vectors();
  calibration_.prefix = recipe().prefix;
  calibration_.state_folder.clear();
  prefix_ = calib::fixed_prefix(this->source(), recipe().prefix);
  calibration_.length = calib::fitting_length(calibration_.length, this->source().spec(), most_prefix_tokens());
}

void ConversionInputs::make_plan() {
  preparation_.emplace(source(), recipe_, format_);
  if (plan_.empty()) plan_ = plan_model(*preparation_);
  std::ranges::move(draft_head_.plan(), std::back_inserter(plan_));
  check_plan(recipe(), plan_, format_);
  work_ = block_work(source().spec());
}

bool ConversionInputs::rounds_tied_head() const {
  const ModelSpec& spec = source().spec();
  if (!rounds_with_samples() || !spec.has_head || !spec.tied_embeddings || unties_head()) return false;
  return std::ranges::any_of(plan_, [](const ModulePlan& module) {
    return module.id.role == model::Role::kEmbedding && module.is_quantized();
  });
}

std::optional<std::vector<int>> ConversionInputs::massive_tokens() const {
  // Tokens that are massive without the prefix are ordinary after it.
  if (!statistics_ || statistics_->prefix != prefix_) return {};
  std::vector<int> tokens;
  for (const MassiveToken& token : statistics_->massive_tokens) tokens.push_back(token.token);
  return tokens;
}

void ConversionInputs::check_recipe() const {
  if (chooses_formats() && !recipe().linears.quantizes()) {
    throw Error("target size", "needs a recipe that makes integers, not " + format_name(recipe().linears));
  }
  if (chooses_formats() && !source().spec().has_head) {
    throw Error("target size", "needs the effect of formats on predictions, and " + model_name() +
                                   " has no head that makes them: name formats");
  }
  if (chooses_formats() && recipe().activations == ActivationType::kInt8 && !recipe().activation_groups) {
    throw Error("target size", "needs scales of activations per token and group: formats are weighed with these");
  }
  if (recipe().untie_head && !source().spec().has_head) throw Error("untie_head", model_name() + " has no head");
  if (options_.calibration.samples == 0) throw Error("samples", "must be at least 1");
}

// Checks the tokenizer: one that does not belong to the embedding would give nonsense without any error.
void ConversionInputs::check_tokenizer() const {
  const auto tokenizer = text::load_tokenizer(source().checkpoint());
  if (tokenizer == nullptr) return;  // tiny test models have none
  text::check_tokenizer(*tokenizer, source().spec().vocab_size, source().config(), model_name());
  for (const std::string& warning : tokenizer->warnings()) tell(model_name() + ": " + warning);
}

/// Checks files that are copied unchanged, and would fail only when they are used.
void ConversionInputs::check_text_vectors() const {
  if (source().spec().text_vectors) model::TextDense(source().checkpoint().path(), *source().spec().text_vectors, {});
}

/// Returns whether statistics are needed for more than finding the prefix.
bool ConversionInputs::uses_statistics() const {
  return runs_samples() || splits_outliers(recipe()) || recipe().smooth ||
         recipe().rounding != Recipe::Rounding::kNearest;
}

bool ConversionInputs::needs_statistics() const {
  return uses_statistics() || (recipe().prefix.automatic && source().prefix_tokens().empty());
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
    statistics_ = calib::calibrate(source_, calibration_, progress);
    prefix_ = statistics_->prefix;
  }
  if (statistics_) {
    preparation_->set_statistics(&*statistics_);
    samples_ = used_samples(*statistics_, options_.calibration.samples);
  }
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
    prefix_ =
        statistics_->prefix.empty() ? calib::massive_prefix(source(), *statistics_, context) : statistics_->prefix;
    model::check_prefix(source().spec(), prefix_, context);
  }
  if (statistics_->prefix == prefix_ || (find && !uses_statistics())) return;
  const std::string measured = prefix_name({.tokens = statistics_->prefix});
  const std::string wanted = prefix_name({.tokens = prefix_});
  const std::string other = source().prefix_tokens().empty() ? "convert with --prefix " + measured + ", or " : "";
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
      .add_model(calibration_.model_identity, source().paths())
      .add("recipe", recipe_json(recipe));
  // Statistics are identified by content, because Python writes a new file for each call.
  if (options_.statistics) key.add_content("statistics", *options_.statistics);
  key.add("samples", options_.calibration.samples).add("length", calibration_.length);
  key.add("seed", calibration_.seed).add("probe samples", options_.probe_samples);
  for (const auto& text : calibration_.text_files) key.add_file(text);
  return key.add("deterministic", options_.deterministic ? 1 : 0);
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
