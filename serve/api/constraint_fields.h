// What an answer must match, by OpenAI's, vLLM's and llama-server's names.
#ifndef BALLAST_SERVE_API_CONSTRAINT_FIELDS_H_
#define BALLAST_SERVE_API_CONSTRAINT_FIELDS_H_

#include <nlohmann/json.hpp>
#include <string>

#include "ballast/constraint.h"
#include "serve/api/request_fields.h"

namespace ballast::serve {

/// Returns the constraint to texts that are valid by a JSON schema.
Constraint schema_constraint(const nlohmann::ordered_json& schema);

/// A constraint, and the field that has it, for errors.
struct FieldConstraint {
  Constraint constraint{};
  std::string field{};
};

/// Reads `response_format`, `structured_outputs`, the older `guided_*`, `structural_tag`, and llama-server's
/// `json_schema` and `grammar`, of which a request may have one. Throws ApiError.
FieldConstraint read_constraint(const RequestFields& fields);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_CONSTRAINT_FIELDS_H_
