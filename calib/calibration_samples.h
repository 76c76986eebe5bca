// Which samples a calibration runs, by its options, and whether it can.
#ifndef BALLAST_CALIB_CALIBRATION_SAMPLES_H_
#define BALLAST_CALIB_CALIBRATION_SAMPLES_H_

#include <cstddef>
#include <string>

#include "ballast/calibrate.h"
#include "ballast/statistics.h"
#include "calib/samples.h"
#include "model/model.h"

namespace ballast::calib {

/// A sample's tokens: `length`, or 512 where it is 0; fewer where the model's context has no room for them after a
/// prefix of so many tokens.
std::size_t fitting_length(std::size_t length, const ModelSpec& spec, std::size_t prefix);

/// Throws Error when no samples of a length that the model and a prefix of so many tokens allow are asked for, or the
/// ranks cannot share them.
void check_options(const CalibrateOptions& options, const model::ModelSource& source, std::size_t prefix,
                   const Ranks& ranks);

/// Samples, and where their text came from: file names, or "sampled from the model".
struct ChosenSamples {
  Samples samples;
  std::string text;
};

/// As the options say. The job's forecast is told as soon as the number of samples is known: before the model writes
/// them. Throws Error when they do not fit the memory.
ChosenSamples choose_samples(const model::ModelSource& source, const model::OuterWeights& outer,
                             const CalibrateOptions& options, Ranks& ranks, jobs::JobState* state,
                             const Progress& progress);

/// Those that statistics were made of.
ChosenSamples samples_of(const Statistics& statistics);

}  // namespace ballast::calib

#endif  // BALLAST_CALIB_CALIBRATION_SAMPLES_H_
