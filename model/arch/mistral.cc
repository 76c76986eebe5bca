// Mistral: Llama with a sliding window in every layer. Its GGUFs say "llama".
#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace {

ModelSpec describe(const files::JsonReader& config) {
  ModelSpec spec = read_llama_line(config);
  spec.windows = read_windows(config, spec.layers);
  // transformers gives every layer the window, whatever layer_types says: only what agrees is let through.
  if (!spec.windows.empty()) check_layer_types(config, spec.layers, {"sliding_attention"});
  return spec;
}

}  // namespace

constinit const Architecture kMistral = {
    .model_type = "mistral",
    .names = kLlamaNames,
    .describe = describe,
};

}  // namespace ballast::model
