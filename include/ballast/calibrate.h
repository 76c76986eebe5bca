// Calibration: run text through a model and record what its activations look like.
#ifndef BALLAST_CALIBRATE_H_
#define BALLAST_CALIBRATE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "ballast/progress.h"
#include "ballast/statistics.h"

namespace ballast {

struct CalibrateOptions {
  std::vector<std::filesystem::path> text_files;  ///< empty: text is sampled from the model itself
  std::size_t samples = 128;                      ///< fewer when the text is shorter
  std::size_t length = 512;                       ///< tokens per sample
  std::uint64_t seed = 0;                         ///< of the choice of samples, or of the sampling
};

/// All samples pass one block before the next, so that one block's weights are in memory at a time. Same result for any
/// number of threads. Throws Error.
Statistics calibrate(const std::filesystem::path& model, const CalibrateOptions& options,
                     const Progress& progress = {});

}  // namespace ballast

#endif  // BALLAST_CALIBRATE_H_
