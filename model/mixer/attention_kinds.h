// The kinds of attention: plain heads, heads that read an encoder's output, and heads computed from latent vectors.
#ifndef BALLAST_MODEL_MIXER_ATTENTION_KINDS_H_
#define BALLAST_MODEL_MIXER_ATTENTION_KINDS_H_

#include <cstddef>

#include "model/mixer/mixer_kind.h"

namespace ballast::model {

extern const MixerKind kAttention;
extern const MixerKind kCrossAttention;
extern const MixerKind kLatentAttention;

/// Returns the number of rotated channels of a head.
inline std::size_t rotary_size(const AttentionSpec& attention) {
  return attention.rope ? attention.rope->rotary_size : 0;
}

/// Returns the number of channels of a head before its rotated ones. Precondition: the layer attends.
inline std::size_t rotary_offset(const LayerSpec& layer) {
  return layer.latent() != nullptr ? layer.attention()->head_size - rotary_size(*layer.attention()) : 0;
}

}  // namespace ballast::model

#endif  // BALLAST_MODEL_MIXER_ATTENTION_KINDS_H_
