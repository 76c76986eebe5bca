// Calibration: runs text through a model and records statistics of its activations.
#ifndef BALLAST_CALIBRATE_H_
#define BALLAST_CALIBRATE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "ballast/compute_options.h"
#include "ballast/prefix.h"
#include "ballast/progress.h"
#include "ballast/ranks.h"
#include "ballast/statistics.h"

namespace ballast {

struct CalibrateOptions {
  std::vector<std::filesystem::path> text_files{};  ///< empty: the model generates the text
  std::size_t samples = 128;                        ///< fewer when the text is shorter
  std::size_t length = 0;  ///< tokens per sample; 0: 512, or as many as the context has room for
  std::uint64_t seed = 0;  ///< of the choice of samples, or of the sampling
  /// Precedes every sample; the statistics are those of the samples' own tokens. A model that has a prefix keeps it. If
  /// it is automatic, the samples first run once without it to find it.
  CachedPrefix prefix{};
  ComputeOptions compute{};  ///< how the model's floats are multiplied

  Ranks* ranks = nullptr;  ///< at most 8 ranks that share the samples; null: one process
  /// Folder for the progress after each block, with which the same call continues after a kill and gives the same
  /// statistics; empty: none. Each rank has its own folder in it.
  std::filesystem::path state_folder{};
  /// Identifies the model in the progress of calibrations and conversions; empty: its files' names, sizes and times,
  /// which would change if a copy is written for each call.
  std::string model_identity{};
  std::function<void(const JobPlan&)> on_plan{};         ///< called on the root rank before the work begins
  std::function<void(const std::string&)> on_message{};  ///< other messages, on the root rank
};

/// Calibrates a model. All samples pass one block before the next, so that one block's weights are in memory at a time.
/// Every rank gets the same statistics; they are the same bytes for any number of threads and ranks. Throws Error, also
/// if the memory is too small: it then names the largest number of samples that fits.
Statistics calibrate(const std::filesystem::path& model, const CalibrateOptions& options,
                     const Progress& progress = {});

/// Returns the hidden state folder next to an output: ".OUTPUT.resume".
std::filesystem::path state_folder_beside(const std::filesystem::path& output);

/// Removes the progress in options.state_folder after the statistics have been saved.
void discard_calibration_state(const CalibrateOptions& options);

}  // namespace ballast

#endif  // BALLAST_CALIBRATE_H_
