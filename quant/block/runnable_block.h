// Makes a block of a conversion in progress runnable, so that its effect on activations can be measured.
#ifndef BALLAST_QUANT_BLOCK_RUNNABLE_BLOCK_H_
#define BALLAST_QUANT_BLOCK_RUNNABLE_BLOCK_H_

#include <functional>
#include <memory>

#include "ballast/recipe.h"
#include "model/embedding_and_head.h"
#include "model/structure/assemble_block.h"
#include "quant/block/working_block.h"

namespace ballast::quant {

/// How the input of a matrix is rounded.
struct ActivationRounding {
  ActivationType type = ActivationType::kInt16;  ///< before a quantized matrix; kFloat decodes the matrix
  bool scale_per_group = true;
  bool bf16_products = false;  ///< floats are multiplied in BF16
};

/// Returns the computation of one matrix: with its codes if it is quantized, as it will be read back, otherwise in
/// floats. A matrix that is not decoded is a view. `compute` is for floats.
model::Linear runnable_linear(const WorkingLinear& linear, const ActivationRounding& activations,
                              const ComputeOptions& compute);

/// Returns the rounding of a matrix's input.
using ActivationRoundings = std::function<ActivationRounding(const WorkingLinear&)>;

/// Returns the roundings of a recipe's model when it runs.
ActivationRoundings activation_roundings(const Recipe& recipe);

/// Returns INT16 for all matrices.
ActivationRounding run_with_int16(const WorkingLinear& linear);

/// Returns INT16 for experts and floats for all others. This is exact, and faster than packing integers for a few
/// tokens.
ActivationRounding run_decoded(const WorkingLinear& linear);

/// Returns the roundings for measurements over this many tokens: if single errors do not matter, floats are multiplied
/// in BF16 if the processor supports it.
ActivationRoundings rounding_over_tokens(std::size_t tokens);

/// Returns the roundings of a recipe's model for measurements over this many tokens after its blocks: INT8 as in the
/// recipe, and rounding_over_tokens for inputs in INT16.
ActivationRoundings activation_roundings_over_tokens(const Recipe& recipe, std::size_t tokens);

/// Returns the parts of `block`, which must outlive the objects created from them. `spec` is the one after the passes
/// so far.
model::BlockParts runnable_parts(const WorkingBlock& block, const ModelSpec& spec,
                                 const ActivationRoundings& activations);

/// Returns the embedding of `front`; if blocks need it for token inputs, with its own weights.
std::shared_ptr<const model::Embedding> runnable_embedding(const WorkingBlock& front, const ModelSpec& spec,
                                                           const ActivationRoundings& activations);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_BLOCK_RUNNABLE_BLOCK_H_
