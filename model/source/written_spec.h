// What a conversion changed in a model's spec: the field "ballast" of a written config.json, next to the original's
// fields.
#ifndef BALLAST_MODEL_SOURCE_WRITTEN_SPEC_H_
#define BALLAST_MODEL_SOURCE_WRITTEN_SPEC_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "ballast/spec.h"
#include "files/json_reader.h"

namespace ballast::model {

/// Name of the field. A checkpoint that has it keeps every role in a tensor of its own.
inline constexpr const char* kWrittenSpecField = "ballast";

/// Returns the field: what folds can change, which is the kind and bias of the norms, and which linears have a bias.
/// Gains are stored without offset.
nlohmann::json written_spec(const ModelSpec& spec);

/// Name of a field of the same object: the ids of massive tokens (MassiveToken::token) in the statistics that the
/// conversion used. It is absent if there were none.
inline constexpr const char* kMassiveTokensField = "massive_tokens";
std::optional<std::vector<int>> read_massive_tokens(const files::JsonReader& config);

/// Sets these properties in a spec that was read from the original's fields. Throws Error naming the field.
void read_written_spec(const files::JsonReader& config, ModelSpec& spec);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_WRITTEN_SPEC_H_
