// How exactly samples run while a model is rounded.
#ifndef BALLAST_QUANT_CONVERSION_SAMPLE_PRECISION_H_
#define BALLAST_QUANT_CONVERSION_SAMPLE_PRECISION_H_

#include <span>

#include "ballast/recipe.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

enum class SamplePrecision {
  kCoarse,  ///< in BF16, or INT8 where the model that is made does that
  kFine,    ///< in F32, experts from 16 bits
};

/// How samples run through blocks, by the bits that these are rounded to. At 8 bits most of the drift would else be
/// what BF16 and the rounding of activations do, for which no weights can make up; at fewer it does not show. `plan`
/// has the model's modules in the recipe's own formats; of a target size the blocks get what the others leave.
SamplePrecision sample_precision(const Recipe& recipe, std::span<const ModulePlan> plan, const ModelFormat& format);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_SAMPLE_PRECISION_H_
