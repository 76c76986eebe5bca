// A sweep's rows as JSON and back.
#ifndef BALLAST_EVAL_SWEEP_SWEEP_ROW_H_
#define BALLAST_EVAL_SWEEP_SWEEP_ROW_H_

#include <nlohmann/json.hpp>
#include <string>

#include "ballast/sweep.h"
#include "files/json_reader.h"

namespace ballast::eval {

/// What was measured, without name, error, and what depends on when it was: the time it took, the process' memory.
nlohmann::json row_json(const SweepRow& row);

/// The inverse of row_json().
SweepRow parse_row(const files::JsonReader& object);

}  // namespace ballast::eval

#endif  // BALLAST_EVAL_SWEEP_SWEEP_ROW_H_
