// The options with which a model with an encoder and a decoder recommends to write texts.
#ifndef BALLAST_MODEL_SOURCE_TRANSLATE_DEFAULTS_H_
#define BALLAST_MODEL_SOURCE_TRANSLATE_DEFAULTS_H_

#include <cstddef>
#include <nlohmann/json.hpp>

#include "ballast/translate.h"
#include "files/checkpoint.h"

namespace ballast::model {

/// Reads generation_config.json, or without that file the fields of the same names in config.json, as older checkpoints
/// have them. Throws Error naming the file and the field for an invalid value, such as a token outside of the
/// vocabulary.
TranslateOptions read_translate_defaults(const files::Checkpoint& checkpoint, const nlohmann::json& config,
                                         std::size_t vocab_size);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_TRANSLATE_DEFAULTS_H_
