// The inputs of a conversion.
#ifndef BALLAST_QUANT_CONVERSION_CONVERSION_INPUTS_H_
#define BALLAST_QUANT_CONVERSION_CONVERSION_INPUTS_H_

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ballast/convert.h"
#include "jobs/job_key.h"
#include "model/source/model_source.h"
#include "quant/conversion/block_work.h"
#include "quant/conversion/draft_head_block.h"
#include "quant/conversion/prepared_blocks.h"
#include "quant/conversion/sample_precision.h"
#include "quant/write/model_format.h"
#include "samples/sample_tokens.h"

namespace ballast::quant {

/// The model, the recipe, the statistics, and the samples that run while the model is rounded.
class ConversionInputs {
 public:
  /// `options` and `format` must outlive this. Throws Error if model, recipe and tokenizer do not fit together.
  ConversionInputs(std::shared_ptr<const model::ModelSource> source, const ConvertOptions& options,
                   const ModelFormat& format);
  ConversionInputs(const ConversionInputs&) = delete;
  ConversionInputs& operator=(const ConversionInputs&) = delete;

  /// Plans the output. Throws Error if its files cannot hold the plan. Must be called once, before gather().
  void make_plan();

  /// Loads the statistics, or measures them if the recipe needs any. The progress of that calibration is stored beside
  /// `output` until discard_calibration(), so that a resumed conversion need not repeat it.
  void gather(const std::filesystem::path& output, const Progress& progress);
  void discard_calibration() const;

  const ConvertOptions& options() const { return options_; }
  const Recipe& recipe() const { return recipe_; }  ///< the options' recipe; its natural size is a number of bytes
  const ModelFormat& format() const { return format_; }
  const model::ModelSource& source() const { return *source_; }
  bool unties_head() const { return recipe().untie_head && source().spec().tied_embeddings; }

  bool rounds_with_samples() const { return recipe().rounding == Recipe::Rounding::kGptq; }
  /// Returns false if blocks read token inputs: the original would need its own embedding in addition to the rounded
  /// one.
  bool corrects_drift() const {
    return rounds_with_samples() && recipe().correct_drift && !source().spec().token_inputs;
  }
  bool chooses_formats() const { return recipe().target_bytes > 0; }
  bool runs_samples() const { return rounds_with_samples() || chooses_formats(); }

  /// Returns whether a calibration comes first.
  bool calibrates() const { return !options_.statistics && needs_statistics(); }

  // The following are available after make_plan().

  /// Returns all modules, in the recipe's own formats.
  const std::vector<ModulePlan>& plan() const { return plan_; }
  const Preparation& preparation() const { return *preparation_; }
  const DraftHeadBlock& draft_head() const { return draft_head_; }
  const BlockWork& work() const { return work_; }  ///< for a forecast
  SamplePrecision precision() const { return sample_precision(recipe(), plan_, format_); }

  /// Returns whether samples round an embedding that is also the head. It is rounded first, but the head's input is
  /// computed last: that is measured before the first block is rounded.
  bool rounds_tied_head() const;

  // The following are available after gather().

  const Statistics* statistics() const { return statistics_ ? &*statistics_ : nullptr; }
  const std::vector<int>& prefix() const { return prefix_; }  ///< tokens in front of every sequence

  /// Returns the tokens that calibration found to be massive after the same prefix; nullopt: they are not known.
  std::optional<std::vector<int>> massive_tokens() const;

  samples::SampleTokens samples() const;  ///< of all ranks
  samples::SampleTokens own_samples() const { return samples::own_samples(samples(), sharing()); }
  samples::SampleSharing sharing() const;

  /// Returns the most tokens that a prefix takes: before gather(), of one that is still to be found.
  std::size_t most_prefix_tokens() const;
  std::size_t calibration_length() const { return calibration_.length; }

  /// Identifies everything that the result depends on.
  jobs::JobKey job_key() const { return key_with(recipe()); }

  /// Identifies everything that the costs of formats depend on.
  std::string weighing_key() const;

  Ranks& ranks() const;

  /// Calls the options' callbacks, on the first rank.
  void tell(const std::string& message) const;
  void tell(const JobPlan& plan) const;

 private:
  std::string model_name() const { return source().checkpoint().path().string(); }
  jobs::JobKey key_with(const Recipe& recipe) const;
  void check_recipe() const;
  void check_tokenizer() const;
  void check_text_vectors() const;
  bool uses_statistics() const;
  bool needs_statistics() const;
  void check_prefix_of_statistics();

  std::shared_ptr<const model::ModelSource> source_;
  const ConvertOptions& options_;
  const ModelFormat& format_;
  Recipe recipe_;
  DraftHeadBlock draft_head_;
  std::optional<Preparation> preparation_;
  std::vector<ModulePlan> plan_;
  BlockWork work_;
  CalibrateOptions calibration_;  ///< as it is run when there are no statistics
  std::vector<int> prefix_;
  std::optional<Statistics> statistics_;
  std::vector<int> samples_;  ///< tokens, each sample's after the prefix
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_CONVERSION_INPUTS_H_
