// How exactly samples run while a model is rounded.
#ifndef BALLAST_QUANT_CONVERSION_SAMPLE_PRECISION_H_
#define BALLAST_QUANT_CONVERSION_SAMPLE_PRECISION_H_

#include <span>

#include "ballast/recipe.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

/// Whether the blocks are rounded so much more coarsely than BF16 rounds what is multiplied that samples may run in it.
/// Else the drift that weights make up for would be BF16's, which the model that runs does not have. `plan` has the
/// model's modules in the recipe's own formats; a target size leaves to blocks what is not the others'.
bool bf16_is_exact_enough(const Recipe& recipe, std::span<const ModulePlan> plan, const ModelFormat& format);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_SAMPLE_PRECISION_H_
