// A block of a conversion under way as something that runs, so that conversion can see what it does to activations.
#ifndef BALLAST_QUANT_RUNNABLE_BLOCK_H_
#define BALLAST_QUANT_RUNNABLE_BLOCK_H_

#include "ballast/recipe.h"
#include "model/block_parts.h"
#include "quant/working_block.h"

namespace ballast::quant {

/// How quantized matrices of a recipe want their inputs.
struct ActivationRounding {
  int bits = 16;
  bool scale_per_group = true;
};

ActivationRounding activation_rounding(const Recipe& recipe);

/// What one matrix computes: quantized when it is, as it will be read back, else in F32. A matrix in F32 is a view.
model::Linear runnable_linear(const WorkingLinear& linear, const ActivationRounding& activations);

/// The parts of `block`, which must outlive what is made of them. `spec` is the one behind the passes so far.
model::BlockParts runnable_parts(const WorkingBlock& block, const ModelSpec& spec,
                                 const ActivationRounding& activations);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_RUNNABLE_BLOCK_H_
