// The token sequences that calibration runs: cut from texts, or written by the model itself.
#ifndef BALLAST_CALIB_SAMPLES_H_
#define BALLAST_CALIB_SAMPLES_H_

#include <filesystem>
#include <vector>

#include "ballast/calibrate.h"
#include "ballast/ranks.h"
#include "jobs/job_state.h"
#include "text/tokenizer.h"

namespace ballast::calib {

using Samples = std::vector<std::vector<int>>;

/// Cuts the texts into chunks of options.length tokens and picks options.samples of them by the seed, in the order of
/// the text. Throws Error when the text does not fill one chunk.
Samples samples_from_text(const text::Tokenizer& tokenizer, const CalibrateOptions& options);

/// Samples options.samples texts of options.length tokens from the model at temperature 1, each by a seed of its own:
/// the ranks share the work, and the texts are the same for any number of them. What is done is kept in `state`, if
/// there is one.
Samples samples_from_model(const std::filesystem::path& model, const CalibrateOptions& options, Ranks& ranks,
                           jobs::JobState* state, const Progress& progress);

/// Texts that the model writes side by side.
inline constexpr std::size_t kSequencesAtOnce = 64;

}  // namespace ballast::calib

#endif  // BALLAST_CALIB_SAMPLES_H_
