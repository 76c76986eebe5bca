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

/// The tokens with which a written text begins.
struct TextStart {
  int token = 0;           ///< the decoder's first one, which is not a part of the text
  std::vector<int> first;  ///< of the text; empty: those that the model recommends
};

/// Returns the beginning of texts in a language, "" for the tokenizer's default. The language's token follows the
/// decoder's first one, or takes its place if that names a language, too (mBART). Throws Error for an unknown language.
TextStart start_in_language(const LoadedModel& model, const std::string& language);

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_SOURCE_TEXT_H_
