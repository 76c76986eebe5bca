// Gopher's blocks (arXiv:2112.11446): RMSNorm before attention and MLP, a plain MLP, biases on every linear. Its
// relative positions are not supported: queries and keys are rotated. Names and fields are those of the Llama line.
#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace gopher {
namespace {

ModelSpec describe(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(config);
  decoder.mlp.activation = read_activation(config, "hidden_act", "gelu");
  decoder.mlp.gated = false;
  decoder.spec.biases = {.query = true, .key = true, .value = true, .attention_output = true, .up = true, .down = true};
  return decoder.finish();
}

}  // namespace
}  // namespace gopher

constinit const Architecture kGopher = {
    .model_type = "gopher",
    .names = kLlamaNames,
    .describe = gopher::describe,
};

}  // namespace ballast::model
