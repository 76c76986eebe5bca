// The statistics of the expert cache as JSON.
#ifndef BALLAST_EVAL_EXPERT_JSON_H_
#define BALLAST_EVAL_EXPERT_JSON_H_

#include <nlohmann/json.hpp>

#include "ballast/model_options.h"

namespace ballast::eval {

inline nlohmann::json expert_json(const ExpertFigures& figures) {
  return {{"hit_rate", figures.hit_rate()}, {"used", figures.used},           {"loaded_bytes", figures.loaded_bytes},
          {"experts", figures.experts},     {"in_memory", figures.in_memory}, {"bytes", figures.bytes}};
}

}  // namespace ballast::eval

#endif  // BALLAST_EVAL_EXPERT_JSON_H_
