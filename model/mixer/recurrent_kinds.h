// Mixers that keep a state of constant size instead of keys and values.
#ifndef BALLAST_MODEL_MIXER_RECURRENT_KINDS_H_
#define BALLAST_MODEL_MIXER_RECURRENT_KINDS_H_

#include "model/mixer/mixer.h"

namespace ballast::model {

extern const MixerKind kGatedDelta;
extern const MixerKind kShortConvolution;

}  // namespace ballast::model

#endif  // BALLAST_MODEL_MIXER_RECURRENT_KINDS_H_
