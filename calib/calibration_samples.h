// Chooses the samples of a calibration.
#ifndef BALLAST_CALIB_CALIBRATION_SAMPLES_H_
#define BALLAST_CALIB_CALIBRATION_SAMPLES_H_

#include <cstddef>
#include <memory>
#include <string>

#include "ballast/calibrate.h"
#include "ballast/statistics.h"
#include "calib/samples.h"
#include "model/model.h"

namespace ballast::calib {

/// Returns a sample's tokens: `length`, or 512 if it is 0; fewer if the model's context has no room for them after a
/// prefix of `prefix` tokens.
std::size_t fitting_length(std::size_t length, const ModelSpec& spec, std::size_t prefix);

/// Throws Error if the number of samples or their length is out of range, also for the model's context after a prefix
/// of `prefix` tokens, or if the ranks cannot share the samples.
void check_options(const CalibrateOptions& options, const model::ModelSource& source, std::size_t prefix,
                   const Ranks& ranks);

/// Samples, and the source of their text: file names, or "sampled from the model".
struct ChosenSamples {
  Samples samples;
  std::string text;
};

/// Chooses samples by the options. The job's forecast is reported as soon as the number of samples is known, before the
/// model generates them. Throws Error if they do not fit the memory.
ChosenSamples choose_samples(const std::shared_ptr<const model::ModelSource>& source,
                             const model::EmbeddingAndHead& outer, const CalibrateOptions& options, Ranks& ranks,
                             jobs::JobState* state, const Progress& progress);

/// Returns the samples of existing statistics.
ChosenSamples samples_of(const Statistics& statistics);

}  // namespace ballast::calib

#endif  // BALLAST_CALIB_CALIBRATION_SAMPLES_H_
