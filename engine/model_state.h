// The state that all handles of a model share.
#ifndef BALLAST_ENGINE_MODEL_STATE_H_
#define BALLAST_ENGINE_MODEL_STATE_H_

#include "ballast/model.h"
#include "engine/loaded_model.h"

namespace ballast {

struct Model::State : engine::LoadedModel {
  using LoadedModel::LoadedModel;
};

}  // namespace ballast

#endif  // BALLAST_ENGINE_MODEL_STATE_H_
