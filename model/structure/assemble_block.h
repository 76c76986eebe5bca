// Assembles the weights of a block from its parts.
#ifndef BALLAST_MODEL_STRUCTURE_ASSEMBLE_BLOCK_H_
#define BALLAST_MODEL_STRUCTURE_ASSEMBLE_BLOCK_H_

#include <cstddef>

#include "ballast/spec.h"
#include "model/block/block_parts.h"
#include "model/block/weights.h"

namespace ballast::model {

/// Returns one of the routed experts of an MLP.
MlpWeights assemble_expert(const MlpSpec& spec, const BlockParts& parts, std::size_t expert);

/// Returns the weights of block `layer`.
BlockWeights assemble_block(const ModelSpec& spec, std::size_t layer, const BlockParts& parts);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_STRUCTURE_ASSEMBLE_BLOCK_H_
