// Nemotron 3 and 4, and Minitron: LayerNorms whose gains are stored minus one, half a head rotated, squared ReLU. Jais
// 2: with full gains, whole heads rotated, and biases.
#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace nemotron {
namespace {

ModelSpec describe_nemotron(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(config, {.context = 4096, .activation = "relu2", .rope = {.partial = 0.5}});
  ModelSpec& spec = decoder.spec;
  spec.norm = {
      .kind = NormSpec::Kind::kLayer, .epsilon = config.positive("norm_eps", 1e-5), .bias = true, .gain_offset = 1.0};
  decoder.mlp.gated = false;
  read_llama_biases(config, spec.biases);
  return decoder.finish();
}

ModelSpec describe_jais2(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(config, {.context = 8192, .activation = "relu2"});
  ModelSpec& spec = decoder.spec;
  spec.norm = {.kind = NormSpec::Kind::kLayer, .epsilon = config.positive("layer_norm_eps", 1e-5), .bias = true};
  decoder.mlp.gated = false;
  BiasSpec& biases = spec.biases;
  biases.query = biases.key = biases.value = biases.attention_output = config.flag("attention_bias", true);
  biases.up = biases.down = config.flag("mlp_bias", true);
  return decoder.finish();
}

}  // namespace
}  // namespace nemotron

constinit const Architecture kNemotron = {
    .model_type = "nemotron",
    .names = kLlamaNames,
    .describe = nemotron::describe_nemotron,
};

constinit const Architecture kJais2 = {
    .model_type = "jais2",
    .names = kLlamaNames,
    .describe = nemotron::describe_jais2,
};

}  // namespace ballast::model
