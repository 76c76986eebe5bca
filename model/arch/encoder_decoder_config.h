// Fields of a config.json that families with an encoder and a decoder share.
#ifndef BALLAST_MODEL_ARCH_ENCODER_DECODER_CONFIG_H_
#define BALLAST_MODEL_ARCH_ENCODER_DECODER_CONFIG_H_

#include <cstddef>
#include <string_view>

#include "ballast/spec.h"
#include "files/json_reader.h"

namespace ballast::model {

/// The blocks of one half, which are alike.
struct HalfConfig {
  std::size_t blocks = 0;
  AttentionSpec attention;
  MlpSpec mlp;
};

/// Returns `spec`, which has no layers, with the layers of both halves. The attention of the decoder to the encoder's
/// output has the heads of that to its own text, without a relative bias.
ModelSpec with_halves(ModelSpec spec, const HalfConfig& encoder, const HalfConfig& decoder);

/// Returns `spec`, which has no layers, with those of the encoder, which is the whole model.
ModelSpec encoder_alone(ModelSpec spec, const HalfConfig& encoder);

/// Throws Error unless the checkpoint was saved from `name`, the class with both halves and a head.
void check_class(const files::JsonReader& config, std::string_view name);

/// Returns the token with which the decoder's text begins: `decoder_start_token_id`.
int read_start_token(const files::JsonReader& config, std::size_t fallback);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_ENCODER_DECODER_CONFIG_H_
