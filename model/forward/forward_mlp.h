// The MLP of a block: plain, or experts.
#ifndef BALLAST_MODEL_FORWARD_FORWARD_MLP_H_
#define BALLAST_MODEL_FORWARD_FORWARD_MLP_H_

#include "model/block/block_pass.h"

namespace ballast::model {

/// Adds the MLP's output for input [tokens][hidden] to hidden [tokens][hidden]; the input may be computed from hidden
/// but is not a part of it. The MLP is plain or has experts.
void forward_mlp(const BlockPass& pass, const LinearRows& input, float* hidden);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_FORWARD_FORWARD_MLP_H_
