// A sweep's rows as JSON.
#ifndef BALLAST_EVAL_SWEEP_SWEEP_ROW_H_
#define BALLAST_EVAL_SWEEP_SWEEP_ROW_H_

#include <nlohmann/json.hpp>
#include <string>

#include "ballast/sweep.h"
#include "files/json_reader.h"

namespace ballast::eval {

/// Returns the measurements, without name, error, and figures that depend on the run: its time and the process's
/// memory.
nlohmann::json row_json(const SweepRow& row);

/// Does the inverse of row_json().
SweepRow parse_row(const files::JsonReader& object);

}  // namespace ballast::eval

#endif  // BALLAST_EVAL_SWEEP_SWEEP_ROW_H_
