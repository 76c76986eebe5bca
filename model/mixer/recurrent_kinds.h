// Mixers that keep a state of constant size instead of keys and values.
#ifndef BALLAST_MODEL_MIXER_RECURRENT_KINDS_H_
#define BALLAST_MODEL_MIXER_RECURRENT_KINDS_H_

#include "model/mixer/mixer_kind.h"

namespace ballast::model {

extern const MixerKind kGatedDelta;
extern const MixerKind kShortConvolution;
extern const MixerKind kMamba2;

/// Returns attention in parallel with Mamba 2 (ParallelMixersSpec).
const MixerKind& parallel_mixers();

/// The kind of layers without a mixer.
extern const MixerKind kNoMixer;

}  // namespace ballast::model

#endif  // BALLAST_MODEL_MIXER_RECURRENT_KINDS_H_
