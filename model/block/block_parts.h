// The parts of a block before it is assembled.
#ifndef BALLAST_MODEL_BLOCK_BLOCK_PARTS_H_
#define BALLAST_MODEL_BLOCK_BLOCK_PARTS_H_

#include <functional>
#include <memory>
#include <vector>

#include "model/block/weights.h"

namespace ballast::model {

/// The parts of one block, or those outside of the blocks, from a checkpoint or from a conversion in progress.
struct BlockParts {
  std::function<Linear(Part)> linear;
  std::function<Norm(Role)> norm;
  std::function<std::vector<float>(Role)> vector;   ///< returns a role of which is_vector is true
  std::shared_ptr<const ExpertStore> experts = {};  ///< the experts, if they are not parts
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_BLOCK_BLOCK_PARTS_H_
