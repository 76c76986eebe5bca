// Makes a block of a conversion in progress runnable, so that its effect on activations can be measured.
#ifndef BALLAST_QUANT_BLOCK_RUNNABLE_BLOCK_H_
#define BALLAST_QUANT_BLOCK_RUNNABLE_BLOCK_H_

#include <functional>
#include <memory>

#include "ballast/recipe.h"
#include "model/block_parts.h"
#include "model/embedding_and_head.h"
#include "quant/block/working_block.h"

namespace ballast::quant {

/// What the input of a matrix becomes.
struct ActivationRounding {
  ActivationType type = ActivationType::kInt16;  ///< before a quantized matrix; kFloat decodes the matrix
  bool scale_per_group = true;
  bool bf16_products = false;  ///< floats are multiplied in BF16
};

/// What one matrix computes: quantized when it is, as it will be read back, else in floats. Those that are not decoded
/// are a view. `compute` is of floats.
model::Linear runnable_linear(const WorkingLinear& linear, const ActivationRounding& activations,
                              const ComputeOptions& compute);

/// Returns the rounding of a matrix's input.
using ActivationRoundings = std::function<ActivationRounding(const WorkingLinear&)>;

/// Returns the roundings of a recipe's model when it runs.
ActivationRoundings activation_roundings(const Recipe& recipe);

/// Returns INT16 for all matrices.
ActivationRounding run_with_int16(const WorkingLinear& linear);

/// Returns INT16 for experts and floats for all others, which is exact, and for a few tokens takes less time than
/// packing integers.
ActivationRounding run_decoded(const WorkingLinear& linear);

/// Returns those for measurements over this many tokens: where single errors do not show, floats are multiplied in BF16
/// if the processor supports it.
ActivationRoundings rounding_over_tokens(std::size_t tokens);

/// Of a recipe's model, for what is measured over so many tokens after its blocks: INT8 as the recipe has it; what
/// reads INT16 as in rounding_over_tokens.
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
