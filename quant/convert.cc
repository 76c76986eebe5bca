#include "ballast/convert.h"

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <utility>

#include "ballast/calibrate.h"
#include "ballast/error.h"
#include "calib/prefix.h"
#include "files/atomic_output.h"
#include "files/safetensors/safetensors_layout.h"
#include "files/safetensors/safetensors_writer.h"
#include "model/model.h"
#include "model/source/model_source.h"
#include "model/source/prefix.h"
#include "quant/conversion_plan.h"
#include "quant/conversion_state.h"
#include "quant/passes/passes.h"
#include "quant/prepared_blocks.h"
#include "quant/runnable_block.h"
#include "quant/sample_stream.h"
#include "quant/search/sensitivity.h"
#include "quant/working_block.h"
#include "quant/write/block_writer.h"
#include "quant/write/metadata_files.h"
#include "text/tokenizer.h"
#include "text/tokenizer_check.h"

namespace ballast {

namespace {

using files::TensorPlan;
using Values = quant::PreparedBlocks::Values;
using quant::WorkingBlock;

// Of an input's columns, where formats are chosen: each is multiplied in F32 while the model runs.
constexpr double kMostOutliers = 0.03;

// Where formats are chosen, of the multiply-adds beside INT8 inputs: an input of 16 bits doubles theirs.
constexpr double kMostInt16Activations = 0.15;

/// Tokens of at most `most` of the statistics' samples, evenly taken, each behind the prefix. That counts in what is
/// measured on them, for the rounded matrices make its keys and values, too.
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

class Conversion {
 public:
  Conversion(const std::filesystem::path& model, const ConvertOptions& options, const Progress& progress)
      : model_(model), options_(options), progress_(progress), source_(model) {
    if (source_.quantization()) {
      throw Error(model.string(), "is quantized already; convert the original instead, rounding twice loses accuracy");
    }
  }

  ConvertReport run(const std::filesystem::path& output) {
    check_recipe();
    check_tokenizer();
    check_replaceable(output);
    // Only the first rank writes; what the others would is the same.
    std::optional<files::AtomicDirectory> directory;
    if (ranks().first()) directory.emplace(output, options_.replace);
    find_statistics(output);
    if (runs_samples()) {
      state_.emplace(jobs::JobState::folder_beside(output), job_key(), ranks());
      tell_state_problem();
      if (state_->blocks() > 0) tell("going on behind block " + std::to_string(state_->blocks() - 1));
    }
    if (runs_samples()) tell_plan();
    if (options_.recipe.target_bytes > 0) allocation_ = find_allocation();

    std::optional<files::SafetensorsWriter> writer;
    std::vector<TensorPlan> tensors = plan();
    if (directory)
      writer.emplace(directory->path(), std::move(tensors), std::map<std::string, std::string>{{"format", "pt"}});
    const std::vector<std::string> notes = convert_blocks(writer ? &*writer : nullptr);
    std::uint64_t bytes = 0;
    if (directory) {
      writer->finish();
      bytes = writer->file_bytes();
      quant::write_metadata_files({.source = source_,
                                   .spec = written_spec_,
                                   .recipe = options_.recipe,
                                   .prefix = prefix_,
                                   .statistics = statistics_ ? &*statistics_ : nullptr,
                                   .stored = stored_},
                                  directory->path());
      directory->commit();
    }
    if (state_) state_->remove();
    discard_calibration_state(calibration_);
    return report(notes, bytes);
  }

 private:
  bool unties_head() const { return options_.recipe.untie_head && source_.spec().tied_embeddings; }

  std::string untied_head_note(const std::vector<TensorGroupReport>& groups) const {
    const auto head = std::ranges::find(groups, source_.name(model::Role::kHead), &TensorGroupReport::name);
    return "untie_head: the head is a matrix of its own now and takes " + std::to_string(head->bytes_after) +
           " bytes more";
  }

  void check_recipe() const {
    if (options_.recipe.target_bytes > 0 && options_.recipe.linears.kind != WeightFormat::Kind::kInteger) {
      throw Error("target size", "needs a recipe that makes integers, not " + format_name(options_.recipe.linears));
    }
    if (options_.recipe.target_bytes > 0 && options_.recipe.activations == Recipe::Activations::kInt8 &&
        !options_.recipe.activation_groups) {
      throw Error("target size", "needs scales of activations per token and group: formats are weighed with these");
    }
    if (options_.calibration.samples == 0) throw Error("samples", "must be at least 1");
  }

  // Replacing must not cost anybody a directory that holds something else.
  void check_replaceable(const std::filesystem::path& output) const {
    if (!options_.replace || !std::filesystem::exists(output)) return;
    if (std::filesystem::is_directory(output) &&
        (std::filesystem::is_empty(output) || std::filesystem::exists(output / "recipe.json"))) {
      return;
    }
    throw Error(output.string(), "is not a model that ballast wrote: it is not replaced, choose another name");
  }

  // A tokenizer that does not belong to the embedding would give a model that talks nonsense without any error.
  void check_tokenizer() const {
    const auto tokenizer = text::load_tokenizer(source_.checkpoint());
    if (tokenizer == nullptr) return;  // tiny test models have none
    text::check_tokenizer(*tokenizer, source_.spec().vocab_size, source_.config(), model_.string());
  }

  bool rounds_with_samples() const { return options_.recipe.rounding == Recipe::Rounding::kGptq; }

  bool runs_samples() const { return rounds_with_samples() || options_.recipe.target_bytes > 0; }

  bool needs_statistics() const {
    return uses_statistics() || (options_.recipe.prefix.automatic && source_.prefix_tokens().empty());
  }

  /// For more than finding the prefix.
  bool uses_statistics() const {
    return runs_samples() || options_.recipe.outlier_fraction > 0 || options_.recipe.smooth ||
           options_.recipe.rounding != Recipe::Rounding::kNearest;
  }

  Ranks& ranks() const { return options_.calibration.ranks != nullptr ? *options_.calibration.ranks : single_rank(); }

  void tell(const std::string& message) const {
    if (options_.calibration.on_message && ranks().first()) options_.calibration.on_message(message);
  }

  /// Once.
  void tell_state_problem() {
    if (state_->problem().empty() || state_problem_told_) return;
    tell("a kill would lose what is done: " + state_->problem());
    state_problem_told_ = true;
  }

  void tell_plan() const {
    const JobPlan plan =
        quant::plan_conversion(source_.spec(),
                               {.rounds_with_samples = rounds_with_samples(),
                                .chooses_formats = options_.recipe.target_bytes > 0 && !state_->allocation(),
                                .smooths = options_.recipe.smooth,
                                .int8_activations = options_.recipe.activations == Recipe::Activations::kInt8,
                                .probe_samples = options_.probe_samples},
                               samples().length, sharing());
    if (options_.calibration.on_plan && ranks().first()) options_.calibration.on_plan(plan);
  }

  void find_statistics(const std::filesystem::path& output) {
    calibration_ = options_.calibration;
    calibration_.prefix = options_.recipe.prefix;
    calibration_.state_folder.clear();
    prefix_ = calib::fixed_prefix(source_, options_.recipe.prefix);
    const std::size_t context = source_.spec().context_length;
    const std::size_t room = std::max(calib::most_tokens(calibration_.prefix), prefix_.size());
    calibration_.length = std::min(calibration_.length, context - std::min(context, room));
    if (options_.statistics) {
      statistics_ = load_statistics(*options_.statistics);
      check_prefix_of_statistics();
    } else if (needs_statistics()) {
      // Kept until the conversion is complete: one that goes on after a kill finds it done.
      const std::filesystem::path beside = jobs::JobState::folder_beside(output);
      calibration_.state_folder = beside.parent_path() / (beside.filename().string() + "-calibration");
      statistics_ = calibrate(model_, calibration_, progress_);
      prefix_ = statistics_->prefix;
    }
    if (statistics_) samples_ = used_samples(*statistics_, options_.calibration.samples);
    if (runs_samples()) jobs::check_sharing(samples().count(), ranks());
  }

  /// What was measured behind another prefix says little about this one.
  void check_prefix_of_statistics() {
    const std::string place = options_.statistics->string();
    const bool find = options_.recipe.prefix.automatic && prefix_.empty();
    if (find) {
      prefix_ = statistics_->prefix.empty() ? calib::massive_prefix(source_, *statistics_, place) : statistics_->prefix;
      model::check_prefix(source_.spec(), prefix_, place);
    }
    if (statistics_->prefix == prefix_ || (find && !uses_statistics())) return;
    const std::string measured = prefix_name({.tokens = statistics_->prefix});
    const std::string wanted = prefix_name({.tokens = prefix_});
    const std::string other = source_.prefix_tokens().empty() ? "convert with --prefix " + measured + ", or " : "";
    throw Error(place, "was measured with the prefix " + measured + ", not " + wanted + ": " + other +
                           "calibrate with --prefix " + wanted);
  }

  quant::ConversionInput input() const {
    return {.source = source_,
            .recipe = options_.recipe,
            .statistics = statistics_ ? &*statistics_ : nullptr,
            .allocation = allocation_ ? &*allocation_ : nullptr};
  }

  quant::SampleTokens samples() const {
    if (!statistics_) return {};
    return {.ids = samples_, .length = prefix_.size() + statistics_->length, .prefix = prefix_.size()};
  }

  quant::SampleSharing sharing() const {
    return {.ranks = &ranks(),
            .order = options_.deterministic ? jobs::SumOrder::kFixed : jobs::SumOrder::kAny,
            .samples = samples().count()};
  }

  /// All that the result depends on.
  jobs::JobKey job_key() const {
    jobs::JobKey key;
    key.add("job", "convert").add_file(model_).add("recipe", recipe_json(options_.recipe));
    if (options_.statistics) key.add_file(*options_.statistics);
    key.add("samples", options_.calibration.samples).add("length", calibration_.length);
    key.add("seed", calibration_.seed).add("probe samples", options_.probe_samples);
    for (const auto& text : calibration_.text_files) key.add_file(text);
    return key.add("deterministic", options_.deterministic ? 1 : 0);
  }

  quant::Allocation find_allocation() {
    if (std::optional<quant::Allocation> saved = state_->allocation()) return *std::move(saved);
    quant::Allocation allocation = allocate_formats();
    state_->save(allocation);
    return allocation;
  }

  /// Formats of all matrices that fit into the target.
  quant::Allocation allocate_formats() {
    const std::uint64_t target = options_.recipe.target_bytes;
    std::vector<quant::InputChoice> choices = weigh_formats();
    quant::assign_int16_activations(choices, kMostInt16Activations);
    // What the file holds besides the matrices depends on their formats a little, through its header.
    std::uint64_t besides = 0;
    constexpr int kRounds = 10;
    for (int round = 0; round < kRounds; ++round) {
      if (besides >= target) {
        throw Error("target size", std::to_string(target) +
                                       " bytes are too few: without its matrices the model takes " +
                                       std::to_string(besides));
      }
      allocation_ = quant::allocate(choices, target - besides);
      const std::uint64_t file = files::plan_safetensors(plan(), {{"format", "pt"}}, "plan").file_bytes;
      if (round > 0 && file <= target) return *std::move(allocation_);
      besides = round == 0 ? file - allocation_->bytes : besides + (file - target);
    }
    throw Error("target size",
                "no choice of formats was found that takes at most " + std::to_string(target) + " bytes");
  }

  std::vector<quant::InputChoice> weigh_formats() {
    quant::PreparedBlocks blocks(input());
    quant::SensitivityAnalysis analysis(blocks.spec(), samples(),
                                        {.probe_samples = options_.probe_samples,
                                         .most_outliers = options_.recipe.outlier_fraction > 0 ? kMostOutliers : 0,
                                         .sharing = sharing(),
                                         .check_cancelled = check_cancelled()});
    WorkingBlock front = blocks.load(0, Values::kAll);
    analysis.add_front(front);
    for (std::size_t layer = 0; layer < blocks.spec().layers.size(); ++layer) {
      WorkingBlock block = blocks.load(layer + 1, Values::kAll);
      analysis.add_block(block, layer);
      report_progress("weighing formats", layer + 1, blocks.spec().layers.size());
    }
    WorkingBlock back = blocks.load(blocks.count() - 1, Values::kAll);
    return analysis.finish(front, back);
  }

  std::vector<TensorPlan> plan() {
    std::vector<TensorPlan> plan;
    quant::PreparedBlocks blocks(input());
    written_spec_ = blocks.spec();
    const auto quantize = quant::make_quantize(options_.recipe.rounding);
    for (std::size_t i = 0; i < blocks.count(); ++i) {
      WorkingBlock block = blocks.load(i, Values::kNone);
      quantize->run(block);
      for (const quant::StoredModule& module : store(block)) {
        for (const quant::StoredTensor& tensor : module.tensors) plan.push_back(tensor.plan);
      }
      report_progress("planning", i + 1, blocks.count());
    }
    return plan;
  }

  /// Returns what was done, a line for each pass. The writer is null on all ranks but the first.
  std::vector<std::string> convert_blocks(files::SafetensorsWriter* writer) {
    quant::PreparedBlocks blocks(input());
    const auto quantize = quant::make_quantize(options_.recipe.rounding);
    quant::SampleStream stream(blocks.spec(), samples().length, check_cancelled());
    const std::size_t done = state_ ? state_->blocks() : 0;
    for (std::size_t i = 0; i < blocks.count(); ++i) {
      WorkingBlock block = blocks.load(i, i < done ? Values::kNone : Values::kAll);
      std::vector<quant::StoredModule> modules;
      if (i < done) {
        quantize->run(block);
        modules = store(block);
        if (writer != nullptr) state_->restore(i, modules);
      } else {
        if (i == done && done > 0 && rounds_with_samples()) resume(stream);
        round_block(block, i, *quantize, stream);
        modules = store(block);
        if (state_) {
          state_->save(i, modules, stream.hidden());
          tell_state_problem();
        }
      }
      if (writer != nullptr) write(modules, *writer);
      stored_.add(modules);
      report_progress("converting", i + 1, blocks.count());
    }
    std::vector<std::string> notes = blocks.notes();
    notes.push_back(quantize->note());
    return notes;
  }

  static void write(const std::vector<quant::StoredModule>& modules, files::SafetensorsWriter& writer) {
    for (const quant::StoredModule& module : modules) {
      for (const quant::StoredTensor& tensor : module.tensors) writer.write(tensor.plan.name, tensor.bytes);
    }
  }

  void resume(quant::SampleStream& stream) const {
    const quant::SampleTokens own = quant::own_samples(samples(), sharing());
    stream.hidden().resize(own.ids.size() * written_spec_.hidden_size);
    state_->restore_samples(stream.hidden());
  }

  /// Rounds a block by what its linears read when all blocks before it are rounded.
  void round_block(WorkingBlock& block, std::size_t index, quant::Pass& quantize, quant::SampleStream& stream) {
    if (!rounds_with_samples()) return quantize.run(block);
    const auto parts = [&] {
      return quant::runnable_parts(block, written_spec_, quant::activation_roundings(options_.recipe));
    };
    if (index == 0) {
      quantize.run(block);
      stream.embed(model::Embedding(written_spec_, parts()), quant::own_samples(samples(), sharing()));
      return;
    }
    if (index > written_spec_.layers.size()) return quantize.run(block);
    const std::size_t layer = index - 1;
    stream.measure(model::assemble_block(written_spec_, layer, parts()), layer, sharing(),
                   quant::SampleStream::Then::kStay, quant::SampleStream::What::kMoments, block);
    quantize.run(block);
    if (layer + 1 < written_spec_.layers.size())
      stream.advance(model::assemble_block(written_spec_, layer, parts()), layer);
  }

  std::vector<quant::StoredModule> store(const WorkingBlock& block) const {
    return quant::store_block(block, quant::small_type(options_.recipe), written_spec_.norm.bias);
  }

  ConvertReport report(const std::vector<std::string>& notes, std::uint64_t bytes) {
    ConvertReport report;
    report.groups = stored_.groups(input().allocation);
    if (!stored_.int16_activation_modules().empty() && options_.recipe.activations == Recipe::Activations::kInt8) {
      report.notes.push_back("activations: INT8, but 16 bits in front of " +
                             std::to_string(stored_.int16_activation_modules().size()) + " of " +
                             std::to_string(stored_.formats().size()) + " matrices");
    }
    if (unties_head()) report.notes.push_back(untied_head_note(report.groups));
    report.notes.insert(report.notes.end(), notes.begin(), notes.end());
    if (!prefix_.empty()) {
      report.notes.push_back("prefix: tokens " + prefix_name({.tokens = prefix_}) +
                             " stand in front of every sequence, in the cache");
    }
    report.bytes_before = source_.checkpoint().file_bytes();
    report.bytes_after = bytes;
    std::uint64_t weights = 0;
    for (const TensorGroupReport& group : report.groups) weights += group.weights;
    report.bits_per_weight = 8.0 * static_cast<double>(bytes) / static_cast<double>(weights);
    if (allocation_) report.divergence = allocation_->cost;
    return report;
  }

  void report_progress(std::string_view stage, std::size_t done, std::size_t total) {
    step_ = {std::string(stage), done, total};
    if (progress_) progress_(stage, done, total);
  }

  /// Within a step, so that an interrupt need not wait for its end.
  std::function<void()> check_cancelled() {
    return [this] {
      if (progress_ && step_.total > 0) progress_(step_.stage, step_.done, step_.total);
    };
  }

  std::filesystem::path model_;
  const ConvertOptions& options_;
  const Progress& progress_;
  model::ModelSource source_;
  CalibrateOptions calibration_;  ///< as it is run when there are no statistics
  std::optional<Statistics> statistics_;
  std::vector<int> prefix_;   ///< in front of every sequence
  std::vector<int> samples_;  ///< tokens of those that run while the model is rounded, each behind it
  std::optional<quant::ConversionState> state_;  ///< of conversions that take long
  bool state_problem_told_ = false;
  std::optional<quant::Allocation> allocation_;
  struct Step {
    std::string stage{};
    std::size_t done = 0;
    std::size_t total = 0;
  };
  Step step_{};             ///< the last that was reported
  ModelSpec written_spec_;  ///< behind all passes
  quant::StoredReport stored_;
};

}  // namespace

ConvertReport convert(const std::filesystem::path& model, const std::filesystem::path& output,
                      const ConvertOptions& options, const Progress& progress) {
  return Conversion(model, options, progress).run(output);
}

}  // namespace ballast
