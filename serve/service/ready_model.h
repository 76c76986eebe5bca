// A loaded model, ready for requests.
#ifndef BALLAST_SERVE_SERVICE_READY_MODEL_H_
#define BALLAST_SERVE_SERVICE_READY_MODEL_H_

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/loaded_model.h"
#include "serve/scheduler/scheduler.h"

namespace ballast::serve {

/// What the server says about a model.
struct ModelDescription {
  nlohmann::ordered_json about;  ///< its entry in /v1/models
  std::string chat_template{};   ///< empty: none
};

struct ReadyModel {
  const engine::LoadedModel& loaded;
  Scheduler& scheduler;
  std::string name;                   ///< in answers
  std::string reply_format = "auto";  ///< of chats
  CacheOptions::Type cache_type = CacheOptions::Type::kAuto;
  ModelDescription description{};
  nlohmann::ordered_json outliers{};  ///< results of the calibration; null: none
};

/// A model that stays loaded as long as a copy of this exists.
using ModelLease = std::shared_ptr<const ReadyModel>;

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SERVICE_READY_MODEL_H_
