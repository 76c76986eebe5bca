#include "ballast/convert.h"

#include <memory>
#include <optional>
#include <utility>

#include "quant/conversion/block_conversion.h"
#include "quant/conversion/conversion.h"
#include "quant/conversion/conversion_forecast.h"
#include "quant/conversion/conversion_inputs.h"
#include "quant/conversion/conversion_report.h"
#include "quant/conversion/conversion_state.h"
#include "quant/conversion/format_search.h"
#include "quant/conversion/model_output.h"
#include "quant/conversion/tied_head.h"
#include "quant/write/model_formats.h"

namespace ballast::quant {

namespace {

struct FoundFormats {
  Allocation allocation;
  std::shared_ptr<const Hessian> head_moments;  ///< null where the formats were found earlier
};

/// Returns the formats of all matrices, which are found once and saved.
FoundFormats find_formats(const ConversionInputs& inputs, ConversionState& state, StepReporter& steps) {
  if (std::optional<Allocation> saved = state.allocation()) return {*std::move(saved), nullptr};
  FormatSearch search(inputs, steps);
  FoundFormats found = {search.run(), search.weighed().tied_head_moments};
  inputs.source().checkpoint().check_whole();
  state.save(found.allocation);
  return found;
}

/// Also discards the progress of the calibration, and of runs with other numbers of ranks.
void discard_progress(const ConversionInputs& inputs, const std::filesystem::path& output) {
  jobs::JobState::remove_folders(jobs::JobState::folder_beside(output));
  inputs.discard_calibration();
}

/// `files` is set on the rank that writes.
ConvertReport run_conversion(const ConversionInputs& inputs, const std::filesystem::path& output,
                             std::optional<ModelOutput>& files, const Progress& progress) {
  StepReporter steps(progress);
  std::vector<ModulePlan> plan = inputs.plan();
  std::optional<ConversionState> state;
  std::optional<Allocation> allocation;
  std::shared_ptr<const Hessian> head_moments;
  bool needs_head_moments = inputs.rounds_tied_head();
  if (inputs.runs_samples()) {
    state.emplace(jobs::JobState::folder_beside(output), inputs.job_key(), inputs.ranks(),
                  [&](const std::string& message) { inputs.tell(message); });
    // If the first part is complete, only blocks that read token inputs need it again.
    needs_head_moments &= state->blocks() == 0 || inputs.source().spec().token_inputs.has_value();
    const bool chooses = inputs.chooses_formats() && !state->allocation();
    inputs.tell(forecast_conversion(inputs, {chooses, needs_head_moments && !chooses}));
  }
  if (inputs.chooses_formats()) {
    FoundFormats found = find_formats(inputs, *state, steps);
    allocation = std::move(found.allocation);
    if (needs_head_moments) head_moments = std::move(found.head_moments);
    apply_allocation(*allocation, plan);
  }
  if (needs_head_moments && head_moments == nullptr) head_moments = measure_tied_head(inputs, steps);

  std::unique_ptr<ModelWriter> writer;
  if (files) writer = inputs.format().open(files->directory(), plan);
  ModuleTally tally(inputs.format());
  BlockConversion blocks(inputs, allocation ? &*allocation : nullptr, state ? &*state : nullptr, steps);
  blocks.set_head_moments(std::move(head_moments));
  blocks.run([&](std::span<const ConvertedModule> block) {
    if (writer) writer->write(block);
    for (const ConvertedModule& module : block) tally.add(module.plan);
  });
  std::uint64_t bytes = 0;
  if (files) {
    bytes = writer->finish({.original = inputs.source().checkpoint(),
                            .config = inputs.source().config(),
                            .spec = blocks.spec(),
                            .recipe = inputs.options().recipe,
                            .prefix = inputs.prefix(),
                            .massive_tokens = inputs.massive_tokens()});
    inputs.source().checkpoint().check_whole();
    files->commit();
  }
  if (state) state->remove();
  discard_progress(inputs, output);
  return conversion_report(inputs, tally, allocation ? &*allocation : nullptr, blocks.notes(), bytes);
}

}  // namespace

ConvertReport convert_to(const ModelFormat& format, std::shared_ptr<const model::ModelSource> source,
                         const std::filesystem::path& output, const ConvertOptions& options, const Progress& progress) {
  ConversionInputs inputs(std::move(source), options, format);
  check_replaceable(format, output, options.replace);
  // Only the root rank writes, because all ranks have the same result.
  std::optional<ModelOutput> files;
  if (inputs.ranks().first()) files.emplace(format, output, options.replace);
  inputs.make_plan();
  inputs.gather(output, progress);
  return jobs::keep_progress_for_retry([&] { return run_conversion(inputs, output, files, progress); },
                                       [&] { discard_progress(inputs, output); });
}

}  // namespace ballast::quant

namespace ballast {

ConvertReport convert(const std::filesystem::path& model, const std::filesystem::path& output,
                      const ConvertOptions& options, const Progress& progress) {
  const auto source = std::make_shared<model::ModelSource>(model);
  source->set_compute(options.calibration.compute);
  ConvertOptions fitting = options;
  const std::unique_ptr<quant::ModelFormat> format = quant::fit_model_format(source, fitting);
  return quant::convert_to(*format, source, output, fitting, progress);
}

}  // namespace ballast
