// What a conversion starts from.
#ifndef BALLAST_QUANT_CONVERSION_CONVERSION_INPUTS_H_
#define BALLAST_QUANT_CONVERSION_CONVERSION_INPUTS_H_

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ballast/convert.h"
#include "jobs/job_state.h"
#include "model/source/model_source.h"
#include "quant/conversion/conversion_forecast.h"
#include "quant/prepared_blocks.h"
#include "samples/sample_tokens.h"

namespace ballast::quant {

/// The model, the recipe, the statistics, and the samples that run while the model is rounded.
class ConversionInputs {
 public:
  /// Opens the model. `options` must outlive this. Throws Error when model, recipe and tokenizer do not go together.
  ConversionInputs(std::filesystem::path model, const ConvertOptions& options);

  /// Loads the statistics, or measures them if the recipe needs them; the progress of that calibration is stored next
  /// to `output` until discard_calibration(), so that a conversion that continues after a kill finds it complete.
  void gather(const std::filesystem::path& output, const Progress& progress);
  void discard_calibration() const;

  const ConvertOptions& options() const { return options_; }
  const Recipe& recipe() const { return options_.recipe; }
  const model::ModelSource& source() const { return source_; }
  bool unties_head() const { return recipe().untie_head && source_.spec().tied_embeddings; }

  bool rounds_with_samples() const { return recipe().rounding == Recipe::Rounding::kGptq; }
  /// Returns false if blocks read token inputs: the original would need its own embedding in addition to the rounded
  /// one.
  bool corrects_drift() const {
    return rounds_with_samples() && recipe().correct_drift && !source_.spec().token_inputs;
  }
  bool chooses_formats() const { return recipe().target_bytes > 0; }
  bool runs_samples() const { return rounds_with_samples() || chooses_formats(); }

  /// Returns whether a calibration comes first.
  bool calibrates() const { return !options_.statistics && needs_statistics(); }

  // What gather() found.
  const Statistics* statistics() const { return statistics_ ? &*statistics_ : nullptr; }
  const std::vector<int>& prefix() const { return prefix_; }  ///< before every sequence
  samples::SampleTokens samples() const;
  samples::SampleSharing sharing() const;

  /// Returns the input of preparing all blocks; `allocation` may be null.
  PreparationInput preparation(const Allocation* allocation) const;

  /// Returns the hash of everything that the result depends on.
  jobs::JobKey job_key() const { return key_with(recipe()); }

  /// Returns the hash of everything that the costs of formats depend on.
  std::string weighing_key() const;

  /// Passes through the model before rounding, unless their results are already known.
  struct Stages {
    bool chooses_formats = false;
    bool runs_to_head = false;  ///< measure_tied_head()
  };

  /// Memory and time. Before gather() the samples are those that were asked for. Throws Error when the memory is not
  /// available.
  JobPlan forecast(const Stages& stages, SamplePrecision precision) const;

  Ranks& ranks() const;

  /// Reports a message on the root rank.
  void tell(const std::string& message) const;
  void tell(const JobPlan& plan) const;

 private:
  jobs::JobKey key_with(const Recipe& recipe) const;
  void check_recipe() const;
  void check_tokenizer() const;
  void check_text_vectors() const;
  bool uses_statistics() const;
  bool needs_statistics() const;
  void check_prefix_of_statistics();
  std::size_t most_prefix_tokens() const;

  std::filesystem::path model_;
  const ConvertOptions& options_;
  model::ModelSource source_;
  CalibrateOptions calibration_;  ///< used if there are no statistics
  std::vector<int> prefix_;
  std::optional<Statistics> statistics_;
  std::vector<int> samples_;  ///< tokens, each sample's after the prefix
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_CONVERSION_INPUTS_H_
