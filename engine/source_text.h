// The source texts that models with an encoder read.
#ifndef BALLAST_ENGINE_SOURCE_TEXT_H_
#define BALLAST_ENGINE_SOURCE_TEXT_H_

#include <string>
#include <vector>

#include "engine/loaded_model.h"

namespace ballast::engine {

/// Throws Error if the model has no encoder before a decoder.
void require_encoder(const LoadedModel& model);

/// Returns the tokens of a source text with its special ones. Throws Error for a text that is longer than the context.
std::vector<int> encode_source(const LoadedModel& model, const std::string& text, const std::string& language);

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_SOURCE_TEXT_H_
