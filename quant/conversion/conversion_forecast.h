// The expected time and memory of a conversion that runs samples.
#ifndef BALLAST_QUANT_CONVERSION_CONVERSION_FORECAST_H_
#define BALLAST_QUANT_CONVERSION_CONVERSION_FORECAST_H_

#include "ballast/progress.h"
#include "quant/conversion/conversion_inputs.h"

namespace ballast::quant {

/// Passes through the model before it is rounded, which run only if their results are not known yet.
struct PassesBefore {
  bool chooses_formats = false;  ///< weighs formats for a target size
  bool runs_to_head = false;     ///< measures what a tied head reads
};

/// Forecasts this rank's memory and the time. Measures the speed of products on this machine. Throws Error with the
/// largest possible number of samples if the memory is not available. Precondition: the inputs have a plan; before they
/// are gathered, the samples are those that a calibration will make.
JobPlan forecast_conversion(const ConversionInputs& inputs, const PassesBefore& passes);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_CONVERSION_FORECAST_H_
