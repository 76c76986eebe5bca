// Defaults of sampling for requests that do not set it.
#ifndef BALLAST_SERVE_API_SAMPLING_DEFAULTS_H_
#define BALLAST_SERVE_API_SAMPLING_DEFAULTS_H_

#include <nlohmann/json.hpp>

#include "ballast/generate.h"
#include "serve/api/request_fields.h"

namespace ballast::serve {

/// Copies the model's values for those fields that a request does not have.
void set_defaults(const RequestFields& fields, const GenerationDefaults& defaults, GenerateOptions& options);

/// Returns the values by the names of the fields, for the log.
nlohmann::ordered_json defaults_json(const GenerationDefaults& defaults);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_SAMPLING_DEFAULTS_H_
