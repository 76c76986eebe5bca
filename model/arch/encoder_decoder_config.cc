#include "model/arch/encoder_decoder_config.h"

#include <string>
#include <vector>

namespace ballast::model {

ModelSpec with_halves(ModelSpec spec, const HalfConfig& encoder, const HalfConfig& decoder) {
  spec.encoder->layers = encoder.blocks;
  spec.layers.assign(encoder.blocks, {.mixer = encoder.attention, .mlp = encoder.mlp});
  spec.layers.back().stream_norm = spec.layout != BlockLayout::kPostNorm;
  AttentionSpec to_source = decoder.attention;
  to_source.relative_bias.reset();
  for (std::size_t block = 0; block < decoder.blocks; ++block) {
    spec.layers.push_back({.mixer = decoder.attention, .mlp = {}});
    spec.layers.push_back({.mixer = CrossAttentionSpec{to_source}, .mlp = decoder.mlp});
  }
  return spec;
}

ModelSpec encoder_alone(ModelSpec spec, const HalfConfig& encoder) {
  spec.causal = false;
  spec.has_head = false;
  spec.tied_embeddings = true;
  spec.layers.assign(encoder.blocks, {.mixer = encoder.attention, .mlp = encoder.mlp});
  spec.layers.back().stream_norm = spec.layout != BlockLayout::kPostNorm;
  return spec;
}

void check_class(const files::JsonReader& config, std::string_view name) {
  constexpr const char* kField = "architectures";
  if (!config.flag("is_encoder_decoder", true)) {
    config.fail("is_encoder_decoder", "false is not supported: only the encoder and the decoder together are");
  }
  if (!config.has(kField)) return;
  for (const std::string& written : config.at(kField).strings()) {
    if (written == name) continue;
    config.fail(kField, "'" + written + "' is not supported; supported: " + std::string(name));
  }
}

int read_start_token(const files::JsonReader& config, std::size_t fallback) {
  return static_cast<int>(config.count("decoder_start_token_id", fallback));
}

}  // namespace ballast::model
