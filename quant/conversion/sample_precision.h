// The precision with which samples run while a model is rounded.
#ifndef BALLAST_QUANT_CONVERSION_SAMPLE_PRECISION_H_
#define BALLAST_QUANT_CONVERSION_SAMPLE_PRECISION_H_

#include <span>

#include "ballast/recipe.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

enum class SamplePrecision {
  kCoarse,  ///< in BF16, or INT8 if the converted model uses it
  kFine,    ///< in F32, experts with 16-bit inputs
};

/// Returns the precision for blocks by the number of bits of their formats. At 8 bits BF16 and rounded activations
/// would cause most of the drift, which weights cannot correct; with fewer bits this does not matter. `plan` has the
/// model's modules in the recipe's own formats; with a target size the blocks get the bytes that other modules leave.
SamplePrecision sample_precision(const Recipe& recipe, std::span<const ModulePlan> plan, const ModelFormat& format);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_SAMPLE_PRECISION_H_
