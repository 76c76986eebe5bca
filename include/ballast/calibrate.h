// Calibration: run text through a model and record what its activations look like.
#ifndef BALLAST_CALIBRATE_H_
#define BALLAST_CALIBRATE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "ballast/prefix.h"
#include "ballast/progress.h"
#include "ballast/ranks.h"
#include "ballast/statistics.h"

namespace ballast {

struct CalibrateOptions {
  std::vector<std::filesystem::path> text_files{};  ///< empty: text is sampled from the model itself
  std::size_t samples = 128;                        ///< fewer when the text is shorter
  std::size_t length = 0;  ///< tokens per sample; 0: 512, or as many as the context has room for
  std::uint64_t seed = 0;  ///< of the choice of samples, or of the sampling
  /// In front of every sample; the statistics are of the samples' own tokens. A model that has one keeps it. When it is
  /// automatic, the samples run once without it to find it.
  CachedPrefix prefix{};

  Ranks* ranks = nullptr;  ///< that share the samples, at most 8; null: this process does it alone
  /// Where what is done is kept from block to block, so that the same call goes on after a kill and gives the same
  /// statistics; empty: nowhere. Each rank has a folder of its own there.
  std::filesystem::path state_folder{};
  /// What tells this model from others there, and in what a conversion keeps; empty: its files' names, sizes and times,
  /// which a copy that is written anew for each call does not share.
  std::string model_identity{};
  std::function<void(const JobPlan&)> on_plan{};         ///< told on the first rank before the work begins
  std::function<void(const std::string&)> on_message{};  ///< what else is worth a line; on the first rank
};

/// All samples pass one block before the next, so that one block's weights are in memory at a time. Every rank gets the
/// same statistics; they are the same bytes for any number of threads and of ranks. Throws Error, also when the memory
/// that is available does not do: it then names the most samples that fit.
Statistics calibrate(const std::filesystem::path& model, const CalibrateOptions& options,
                     const Progress& progress = {});

/// A state_folder beside an output, hidden: ".OUTPUT.resume".
std::filesystem::path state_folder_beside(const std::filesystem::path& output);

/// Removes what calibrate() kept in options.state_folder: for when the statistics have been saved.
void discard_calibration_state(const CalibrateOptions& options);

}  // namespace ballast

#endif  // BALLAST_CALIBRATE_H_
