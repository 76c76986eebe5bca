// A fixed prefix: tokens before every sequence, in the cache.
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

/// Throws Error at `context` when a model cannot have these tokens in front of every sequence, or any: an encoder, ids
/// that its vocabulary does not have, or so many that no text fits after them.
void check_prefix(const ModelSpec& spec, std::span<const int> tokens, const std::string& context);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_PREFIX_H_
