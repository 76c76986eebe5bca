// Attention, with heads straight from the block's input or through latent vectors.
#ifndef BALLAST_MODEL_MIXER_ATTENTION_KINDS_H_
#define BALLAST_MODEL_MIXER_ATTENTION_KINDS_H_

#include <cstddef>

#include "model/mixer/mixer.h"

namespace ballast::model {

extern const MixerKind kAttention;
extern const MixerKind kLatentAttention;

/// Channels of a head that are rotated.
inline std::size_t rotary_size(const AttentionSpec& attention) {
  return attention.rope ? attention.rope->rotary_size : 0;
}

/// Channels of a head before its rotated ones. Precondition: the layer attends.
inline std::size_t rotary_offset(const LayerSpec& layer) {
  return layer.latent() != nullptr ? layer.attention()->head_size - rotary_size(*layer.attention()) : 0;
}

}  // namespace ballast::model

#endif  // BALLAST_MODEL_MIXER_ATTENTION_KINDS_H_
