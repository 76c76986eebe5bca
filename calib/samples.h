// The token sequences that calibration runs: cut from texts, or written by the model itself.
#ifndef BALLAST_CALIB_SAMPLES_H_
#define BALLAST_CALIB_SAMPLES_H_

#include <filesystem>
#include <vector>

#include "ballast/calibrate.h"
#include "model/tokenizer/tokenizer.h"

namespace ballast::calib {

using Samples = std::vector<std::vector<int>>;

/// Cuts the texts into chunks of options.length tokens and picks options.samples of them by the seed, in the order of
/// the text. Throws Error when the text does not fill one chunk.
Samples samples_from_text(const model::Tokenizer& tokenizer, const CalibrateOptions& options);

/// Samples options.samples texts of options.length tokens from the model at temperature 1.
Samples samples_from_model(const std::filesystem::path& model, const CalibrateOptions& options,
                           const Progress& progress);

}  // namespace ballast::calib

#endif  // BALLAST_CALIB_SAMPLES_H_
