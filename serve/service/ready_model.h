// A loaded model, ready for requests.
#ifndef BALLAST_SERVE_SERVICE_READY_MODEL_H_
#define BALLAST_SERVE_SERVICE_READY_MODEL_H_

#include <nlohmann/json.hpp>

#include "engine/loaded_model.h"
#include "serve/scheduler/scheduler.h"

namespace ballast::serve {

struct ReadyModel {
  const engine::LoadedModel& loaded;
  Scheduler& scheduler;
  nlohmann::ordered_json about;     ///< its description in /v1/models
  nlohmann::ordered_json outliers;  ///< results of the calibration; null: none
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SERVICE_READY_MODEL_H_
