// How exactly samples run while a model is rounded.
#ifndef BALLAST_QUANT_CONVERSION_SAMPLE_PRECISION_H_
#define BALLAST_QUANT_CONVERSION_SAMPLE_PRECISION_H_

#include <span>

#include "ballast/recipe.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

enum class SamplePrecision {
  kCoarse,  ///< in BF16, or INT8 where the model that is made does that
  kFine,    ///< in F32
};

/// How samples run through blocks, for what these are rounded to: the fewer bits, the less it shows. Drift that weights
/// make up for is else, at 8 bits, what BF16 and the rounding of activations do, of which nothing can be made up for.
/// `plan` has the model's modules in the recipe's own formats; a target size leaves to blocks what is not the others'.
SamplePrecision sample_precision(const Recipe& recipe, std::span<const ModulePlan> plan, const ModelFormat& format);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_SAMPLE_PRECISION_H_
