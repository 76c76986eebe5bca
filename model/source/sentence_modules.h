// The files beside a checkpoint that say how sentence-transformers makes vectors of texts with it.
#ifndef BALLAST_MODEL_SOURCE_SENTENCE_MODULES_H_
#define BALLAST_MODEL_SOURCE_SENTENCE_MODULES_H_

#include <filesystem>
#include <optional>

#include "ballast/spec.h"

namespace ballast::model {

/// What modules.json in `directory` and the files that it names come to; empty without that file. Throws Error for
/// modules that do something else.
std::optional<TextVectorSpec> read_sentence_modules(const std::filesystem::path& directory);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_SENTENCE_MODULES_H_
