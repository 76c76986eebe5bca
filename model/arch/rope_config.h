// The rotary embedding of a configuration, as written by any generation of transformers or by GGUF.
#ifndef BALLAST_MODEL_ARCH_ROPE_CONFIG_H_
#define BALLAST_MODEL_ARCH_ROPE_CONFIG_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

#include "ballast/spec.h"
#include "files/gguf/gguf.h"
#include "files/json_reader.h"

namespace ballast::model {

/// From `rope_parameters` (transformers 5) or `rope_theta` and `rope_scaling` (before), for heads of `head_size`, of
/// which the fraction `partial` is rotated unless the config says otherwise. Throws Error for unknown types.
RopeSpec read_rope(const files::JsonReader& config, std::size_t head_size, double partial = 1.0);

/// YaRN's factor for the softmax's scale, as DeepSeek applies it: its square multiplies the scale (arXiv:2309.00071).
double yarn_attention_factor(const files::JsonReader& config);

/// `rope_parameters` for a GGUF whose keys begin with `prefix` ("llama."). Llama 3's stretching is stored there as one
/// factor per frequency (rope_freqs.weight): its parameters are recovered from them, or an Error thrown.
nlohmann::json rope_parameters_from_gguf(const files::GgufFile& file, std::string_view prefix, std::size_t head_size);

/// Angle per position of each pair: rotary_size / 2 values.
std::vector<double> rope_frequencies(const RopeSpec& rope);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_ROPE_CONFIG_H_
