// Handles an embedding that is also the head: it is rounded first, but the head's input is computed last.
#ifndef BALLAST_QUANT_CONVERSION_TIED_HEAD_H_
#define BALLAST_QUANT_CONVERSION_TIED_HEAD_H_

#include <memory>
#include <span>

#include "quant/conversion/conversion_inputs.h"
#include "quant/conversion/step_reporter.h"
#include "quant/rounding/hessian.h"
#include "quant/write/converted_module.h"

namespace ballast::quant {

/// Returns whether there is such an embedding, and samples for rounding it. `plan` has the model's modules.
bool rounds_tied_head(const ConversionInputs& inputs, std::span<const ModulePlan> plan);

/// Runs the samples through the unrounded blocks and measures the moments of the head's input, for conversions that did
/// not measure formats, which would give them, too.
std::shared_ptr<const Hessian> measure_tied_head(const ConversionInputs& inputs, StepReporter& steps);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_TIED_HEAD_H_
