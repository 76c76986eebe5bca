// Nemotron 3 and 4, and Minitron: LayerNorms whose gains are stored minus one, half a head rotated, squared ReLU.
#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace {

ModelSpec describe(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(config, {.context = 4096, .activation = "relu2", .rope = {.partial = 0.5}});
  ModelSpec& spec = decoder.spec;
  spec.norm = {
      .kind = NormSpec::Kind::kLayer, .epsilon = config.positive("norm_eps", 1e-5), .bias = true, .gain_offset = 1.0};
  decoder.mlp.gated = false;
  read_llama_biases(config, spec.biases);
  return decoder.finish();
}

}  // namespace

constinit const Architecture kNemotron = {
    .model_type = "nemotron",
    .names = kLlamaNames,
    .describe = describe,
};

}  // namespace ballast::model
