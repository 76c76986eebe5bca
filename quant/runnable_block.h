// Makes a block of a conversion in progress runnable, so that its effect on activations can be measured.
#ifndef BALLAST_QUANT_RUNNABLE_BLOCK_H_
#define BALLAST_QUANT_RUNNABLE_BLOCK_H_

#include <functional>
#include <memory>

#include "ballast/recipe.h"
#include "model/block_parts.h"
#include "model/embedding_and_head.h"
#include "quant/working_block.h"

namespace ballast::quant {

/// The format in which a matrix needs its input.
struct ActivationRounding {
  int bits = 16;  ///< if it is quantized
  bool scale_per_group = true;
  bool decoded = false;        ///< quantized weights run as decoded floats
  bool bf16_products = false;  ///< for float products
};

/// What one matrix computes: quantized when it is, as it will be read back, else in floats. Those that are not decoded
/// are a view.
model::Linear runnable_linear(const WorkingLinear& linear, const ActivationRounding& activations);

/// Returns the rounding for each matrix.
using ActivationRoundings = std::function<ActivationRounding(const WorkingLinear&)>;

/// Returns those of a recipe's model at run time.
ActivationRoundings activation_roundings(const Recipe& recipe);

/// 16 bits for all.
ActivationRounding fine_rounding(const WorkingLinear& linear);

/// 16 bits for experts; all others run as floats, which is exact, and for a few tokens takes less than packing
/// integers.
ActivationRounding run_decoded(const WorkingLinear& linear);

/// Returns those for measurements over this many tokens: where single errors do not show, floats are multiplied in BF16
/// if the processor supports it.
ActivationRoundings rounding_over_tokens(std::size_t tokens);

/// Returns those of a recipe's model for measurements over this many tokens after its blocks: INT8 as in the recipe;
/// 16-bit inputs as in rounding_over_tokens.
ActivationRoundings activation_roundings_over_tokens(const Recipe& recipe, std::size_t tokens);

/// Returns the parts of `block`, which must outlive the objects created from them. `spec` is the one after the passes
/// so far.
model::BlockParts runnable_parts(const WorkingBlock& block, const ModelSpec& spec,
                                 const ActivationRoundings& activations);

/// Returns the embedding of `front`; if blocks need it for token inputs, with its own weights.
std::shared_ptr<const model::Embedding> runnable_embedding(const WorkingBlock& front, const ModelSpec& spec,
                                                           const ActivationRoundings& activations);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_RUNNABLE_BLOCK_H_
