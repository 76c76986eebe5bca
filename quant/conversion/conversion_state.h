// Saves and restores a conversion's progress, so that it continues after a kill.
#ifndef BALLAST_QUANT_CONVERSION_CONVERSION_STATE_H_
#define BALLAST_QUANT_CONVERSION_CONVERSION_STATE_H_

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ballast/ranks.h"
#include "jobs/job_state.h"
#include "quant/search/allocation.h"
#include "quant/write/converted_module.h"

namespace ballast::quant {

/// The stored results of a conversion's stages: the allocation, every block, and the samples after the last one. Each
/// rank has a separate folder; a stage counts if all ranks have it. All ranks must make the same calls.
class ConversionState {
 public:
  /// `tell` receives messages: that the job continues, or, once, that progress is no longer saved.
  ConversionState(const std::filesystem::path& folder, const jobs::JobKey& key, Ranks& ranks,
                  std::function<void(const std::string&)> tell);

  std::optional<Allocation> allocation() const;
  void save(const Allocation& allocation);

  /// Returns the number of stored blocks, for the last of which the samples are stored, too.
  std::size_t blocks() const { return blocks_; }

  /// Returns the modules of a block with its original plan; on the root rank.
  std::vector<ConvertedModule> restore(std::size_t block, std::vector<ModulePlan> plan) const;

  /// Restores the samples after the last stored block: the arrays must have their sizes.
  void restore_samples(std::span<const std::span<float>> samples) const;

  /// Saves the progress after block `block`; `samples` are those after it. They are large, so they are saved only as
  /// often as is worthwhile.
  void save(std::size_t block, std::span<const ConvertedModule> modules, std::span<const std::span<float>> samples);

  /// Deletes the progress, when the job is done.
  void remove();

 private:
  void find_blocks();
  void save_samples(std::size_t block, std::span<const std::span<float>> samples);
  void tell_problem();

  Ranks& ranks_;
  jobs::JobState state_;
  std::function<void(const std::string&)> tell_;
  bool problem_told_ = false;
  std::size_t blocks_ = 0;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_CONVERSION_STATE_H_
