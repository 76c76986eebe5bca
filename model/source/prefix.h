// Tokens that are in the cache before every sequence (a fixed prefix).
#ifndef BALLAST_MODEL_SOURCE_PREFIX_H_
#define BALLAST_MODEL_SOURCE_PREFIX_H_

#include <span>
#include <string>
#include <vector>

#include "ballast/spec.h"
#include "files/json_reader.h"

namespace ballast::model {

/// Field of a written config.json's "ballast" object: the ids of the prefix; absent when there is none.
inline constexpr const char* kPrefixTokensField = "prefix_tokens";

/// Throws Error when the field is not a list of ids.
std::vector<int> read_prefix_tokens(const files::JsonReader& config);

/// Throws Error at `context` if a model cannot have these tokens before every sequence: it is an encoder, its
/// vocabulary lacks one of the ids, or there are so many that no text fits after them.
void check_prefix(const ModelSpec& spec, std::span<const int> tokens, const std::string& context);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_PREFIX_H_
