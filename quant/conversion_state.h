// A conversion's progress, saved and found again, so that it goes on after a kill.
#ifndef BALLAST_QUANT_CONVERSION_STATE_H_
#define BALLAST_QUANT_CONVERSION_STATE_H_

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ballast/ranks.h"
#include "jobs/job_state.h"
#include "quant/search/allocation.h"
#include "quant/write/block_writer.h"

namespace ballast::quant {

/// What each stage leaves: the allocation, the bytes of every block, and the samples behind the last one. Each rank has
/// a folder of its own; a stage counts when all ranks have it. All calls are made by all ranks.
class ConversionState {
 public:
  ConversionState(const std::filesystem::path& folder, const jobs::JobKey& key, Ranks& ranks);

  std::optional<Allocation> allocation() const;
  void save(const Allocation& allocation);

  /// Blocks 0 ... blocks - 1 are there, and the samples behind the last of them; 0: nothing is.
  std::size_t blocks() const { return blocks_; }

  /// Fills in the bytes of a block's modules that come from a plan; on the first rank.
  void restore(std::size_t block, std::vector<StoredModule>& modules) const;

  /// The samples behind the last block that is there: `samples` has the size they had.
  void restore_samples(std::span<float> samples) const;

  /// After block `block`; `samples` are those behind it. They are large: they are kept only as often as is worth it.
  void save(std::size_t block, const std::vector<StoredModule>& modules, std::span<const float> samples);

  /// The job is done.
  void remove();

  /// Why nothing is saved any more, empty as long as it is.
  const std::string& problem() const { return state_.problem(); }

 private:
  Ranks& ranks_;
  jobs::JobState state_;
  std::size_t blocks_ = 0;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_STATE_H_
