// What the bytes of a model's states depend on.
#ifndef BALLAST_SERVE_SCHEDULER_STATE_IDENTITY_H_
#define BALLAST_SERVE_SCHEDULER_STATE_IDENTITY_H_

#include <string>

#include "engine/loaded_model.h"
#include "model/mixer/sequence_state.h"

namespace ballast::serve {

/// Returns a text that is the same for two servers if the same tokens give the same bytes of states in both: the
/// program, the instruction set, the options of the model and of the cache (`root` is a state without tokens), and the
/// model's files. Of a file these are its name, size and modification time, and samples of its content: reading all of
/// a large model would delay the start by as much as loading it. The samples distinguish models whose files have equal
/// sizes and, as in images of containers, equal times; they are close enough that there is one in every large matrix.
/// Throws Error if a file cannot be read.
std::string state_identity(const engine::LoadedModel& loaded, const model::SequenceState& root);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SCHEDULER_STATE_IDENTITY_H_
