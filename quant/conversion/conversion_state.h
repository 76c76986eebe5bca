// A conversion's progress, saved and found again, so that it goes on after a kill.
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

/// What each stage leaves: the allocation, every block, and the samples after the last one. Each rank has a folder of
/// its own; a stage counts when all ranks have it. All calls are made by all ranks.
class ConversionState {
 public:
  /// `tell` is called when something is worth a line: that the job goes on, or, once, that nothing is saved any more.
  ConversionState(const std::filesystem::path& folder, const jobs::JobKey& key, Ranks& ranks,
                  std::function<void(const std::string&)> tell);

  std::optional<Allocation> allocation() const;
  void save(const Allocation& allocation);

  /// Blocks 0 ... blocks - 1 are there, and the samples after the last of them; 0: nothing is.
  std::size_t blocks() const { return blocks_; }

  /// The modules of a block, which is planned as it was; on the first rank.
  std::vector<ConvertedModule> restore(std::size_t block, std::vector<ModulePlan> plan) const;

  /// The samples after the last block that is there: their arrays have the sizes they had.
  void restore_samples(std::span<const std::span<float>> samples) const;

  /// After block `block`; `samples` are those after it. They are large: they are kept only as often as is worth it.
  void save(std::size_t block, std::span<const ConvertedModule> modules, std::span<const std::span<float>> samples);

  /// The job is done.
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
