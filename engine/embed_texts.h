// The tokens of texts of which vectors are made.
#ifndef BALLAST_ENGINE_EMBED_TEXTS_H_
#define BALLAST_ENGINE_EMBED_TEXTS_H_

#include <span>
#include <string>
#include <vector>

#include "ballast/embed.h"
#include "engine/loaded_model.h"
#include "engine/text_runner.h"

namespace ballast::engine {

/// Returns the tokens of texts with their prompt, of which no more are kept than the options or the model say.
std::vector<EncodedText> encode_for_vectors(const LoadedModel& loaded, std::span<const std::string> texts,
                                            const EmbedOptions& options);

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_EMBED_TEXTS_H_
