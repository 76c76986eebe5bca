// Handles an embedding that is also the head: it is rounded first, but the head's input is computed last.
#ifndef BALLAST_QUANT_CONVERSION_TIED_HEAD_H_
#define BALLAST_QUANT_CONVERSION_TIED_HEAD_H_

#include <memory>

#include "quant/conversion/conversion_inputs.h"
#include "quant/conversion/step_reporter.h"
#include "quant/rounding/hessian.h"

namespace ballast::quant {

/// Runs the samples through the unchanged blocks before anything is rounded, and returns the moments of the head's
/// input. They are already known if formats were weighed. See ConversionInputs::rounds_tied_head().
std::shared_ptr<const Hessian> measure_tied_head(const ConversionInputs& inputs, StepReporter& steps);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_TIED_HEAD_H_
