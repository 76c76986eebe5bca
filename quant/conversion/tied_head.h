// For an embedding that is the head, too: it is rounded first, and what the head reads comes last.
#ifndef BALLAST_QUANT_CONVERSION_TIED_HEAD_H_
#define BALLAST_QUANT_CONVERSION_TIED_HEAD_H_

#include <memory>
#include <span>

#include "quant/conversion/conversion_inputs.h"
#include "quant/conversion/step_reporter.h"
#include "quant/rounding/hessian.h"
#include "quant/write/converted_module.h"

namespace ballast::quant {

/// Whether there is such an embedding, and samples to round it by. `plan` has the model's modules.
bool rounds_tied_head(const ConversionInputs& inputs, std::span<const ModulePlan> plan);

/// Runs the samples through the blocks as they are before anything is rounded, and measures what comes out of them as
/// the head reads it: for conversions that have not weighed formats, which tells that, too.
std::shared_ptr<const Hessian> measure_tied_head(const ConversionInputs& inputs, StepReporter& steps);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_TIED_HEAD_H_
