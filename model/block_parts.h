// Puts the weights of a block together, wherever its parts come from.
#ifndef BALLAST_MODEL_BLOCK_PARTS_H_
#define BALLAST_MODEL_BLOCK_PARTS_H_

#include <functional>
#include <memory>
#include <vector>

#include "ballast/spec.h"
#include "model/block_structure.h"
#include "model/weights.h"

namespace ballast::model {

/// Parts of one block, or of what lies around the blocks: a checkpoint's, or those of a conversion under way.
struct BlockParts {
  std::function<Linear(Part)> linear;
  std::function<Norm(Role)> norm;
  std::function<std::vector<float>(Role)> vector;   ///< one of is_vector
  std::shared_ptr<const ExpertStore> experts = {};  ///< where they are, if they are no parts
};

/// One of the routed experts of an MLP.
MlpWeights assemble_expert(const MlpSpec& spec, const BlockParts& parts, std::size_t expert);

/// All weights that the spec says block `layer` has.
BlockWeights assemble_block(const ModelSpec& spec, std::size_t layer, const BlockParts& parts);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_BLOCK_PARTS_H_
