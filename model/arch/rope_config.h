// The rotary embedding of a configuration, as written by any generation of transformers or by GGUF.
#ifndef BALLAST_MODEL_ARCH_ROPE_CONFIG_H_
#define BALLAST_MODEL_ARCH_ROPE_CONFIG_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "ballast/spec.h"
#include "files/gguf/gguf.h"
#include "files/json_reader.h"

namespace ballast::model {

/// Defaults of a family's configuration class for fields that are absent.
struct RopeDefaults {
  double partial = 1.0;  ///< fraction of a head's channels that rotates
  double theta = 10000.0;

  /// Contexts before and after stretching, for families that stretch only by LongRoPE (arXiv:2402.13753).
  struct LongRope {
    double original_context;
    double context;
  };
  std::optional<LongRope> longrope{};

  bool ntk_alpha = false;  ///< the type "dynamic" with an `alpha` stretches all texts equally
};

/// Reads `rope_parameters` (transformers 5) or `rope_theta` and `rope_scaling` (earlier), for heads of `head_size`.
/// Throws Error for unknown types.
RopeSpec read_rope(const files::JsonReader& config, std::size_t head_size, const RopeDefaults& defaults = {});

/// Reads the same from an object with all parameters, for configurations with one for each type of layers.
RopeSpec read_rope_parameters(const files::JsonReader& parameters, std::size_t head_size,
                              const RopeDefaults& defaults = {});

/// Reads Gemma 4's and LFM3's rotation of a part of the pairs from such an object: frequencies are those of whole
/// heads.
RopeSpec read_proportional_rope(const files::JsonReader& parameters, std::size_t head_size,
                                const RopeDefaults& defaults);

/// Reads the rotation of one type of layers: its object in `rope_parameters`, or, before transformers 5, the defaults
/// and `scaling_field`, if there is one. Throws Error if there is an object for a type other than "full_attention" and
/// "sliding_attention".
RopeSpec read_rope_of_type(const files::JsonReader& config, std::string_view layer_type, std::size_t head_size,
                           const RopeDefaults& defaults, std::string_view scaling_field = {});

/// Returns YaRN's factor for the softmax's scale as DeepSeek applies it: its square multiplies the scale
/// (arXiv:2309.00071).
double yarn_attention_factor(const files::JsonReader& config);

/// Returns the angle per position of each pair: rotary_size / 2 values.
std::vector<double> rope_frequencies(const RopeSpec& rope);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_ROPE_CONFIG_H_
