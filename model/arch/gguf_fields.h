// From a model's description to a GGUF's metadata.
#ifndef BALLAST_MODEL_ARCH_GGUF_FIELDS_H_
#define BALLAST_MODEL_ARCH_GGUF_FIELDS_H_

#include <string_view>
#include <vector>

#include "ballast/spec.h"
#include "files/gguf/gguf_writer.h"

namespace ballast::model {

/// The keys of a GGUF of the Llama line, which begin with `architecture`. Throws Error naming what such a file cannot
/// say.
std::vector<files::GgufField> llama_line_to_gguf(const ModelSpec& spec, std::string_view architecture);

/// The values of rope_freqs.weight, which stretch each pair's rotation as Llama 3 does; empty where nothing does.
std::vector<float> gguf_rope_factors(const ModelSpec& spec);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_GGUF_FIELDS_H_
