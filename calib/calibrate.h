// Calibration of an open model.
#ifndef BALLAST_CALIB_CALIBRATE_H_
#define BALLAST_CALIB_CALIBRATE_H_

#include <memory>

#include "ballast/calibrate.h"
#include "model/source/model_source.h"

namespace ballast::calib {

/// Does the same as ballast::calibrate, for an open model. Precondition: `source` computes with options.compute
/// (ModelSource::set_compute()).
Statistics calibrate(const std::shared_ptr<const model::ModelSource>& source, const CalibrateOptions& options,
                     const Progress& progress);

}  // namespace ballast::calib

#endif  // BALLAST_CALIB_CALIBRATE_H_
