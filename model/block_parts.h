// Assembles the weights of a block from its parts.
#ifndef BALLAST_MODEL_BLOCK_PARTS_H_
#define BALLAST_MODEL_BLOCK_PARTS_H_

#include <functional>
#include <memory>
#include <vector>

#include "ballast/spec.h"
#include "model/block_structure.h"
#include "model/weights.h"

namespace ballast::model {

/// The parts of one block, or those outside of the blocks, from a checkpoint or from a conversion in progress.
struct BlockParts {
  std::function<Linear(Part)> linear;
  std::function<Norm(Role)> norm;
  std::function<std::vector<float>(Role)> vector;   ///< returns a role of which is_vector is true
  std::shared_ptr<const ExpertStore> experts = {};  ///< the experts, if they are not parts
};

/// Returns one of the routed experts of an MLP.
MlpWeights assemble_expert(const MlpSpec& spec, const BlockParts& parts, std::size_t expert);

/// Returns the weights of block `layer`.
BlockWeights assemble_block(const ModelSpec& spec, std::size_t layer, const BlockParts& parts);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_BLOCK_PARTS_H_
