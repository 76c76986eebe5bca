// Forecasts the memory and time of a calibration.
#ifndef BALLAST_CALIB_CALIBRATION_PLAN_H_
#define BALLAST_CALIB_CALIBRATION_PLAN_H_

#include <cstddef>

#include "ballast/calibrate.h"
#include "ballast/progress.h"
#include "ballast/ranks.h"
#include "model/model.h"

namespace ballast::calib {

/// Plans `samples` samples over all ranks. Throws Error if this rank's part does not fit the available memory, naming
/// the largest number of samples that does.
JobPlan plan_calibration(const model::ModelSource& source, const model::EmbeddingAndHead& outer,
                         const CalibrateOptions& options, std::size_t samples, const Ranks& ranks);

}  // namespace ballast::calib

#endif  // BALLAST_CALIB_CALIBRATION_PLAN_H_
