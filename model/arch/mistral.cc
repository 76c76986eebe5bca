// Mistral: Llama with a sliding window in every layer. Its GGUFs say "llama".
#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace {

ModelSpec describe(const files::JsonReader& config) {
  ModelSpec spec = read_llama_line(config).finish();
  const std::vector<std::size_t> windows = read_windows(config, spec.layers.size());
  // transformers gives every layer the window, whatever layer_types says: only what agrees is let through.
  if (!windows.empty()) check_layer_types(config, spec.layers.size(), {"sliding_attention"});
  set_windows(spec, windows);
  return spec;
}

}  // namespace

constinit const Architecture kMistral = {
    .model_type = "mistral",
    .names = kLlamaNames,
    .describe = describe,
};

}  // namespace ballast::model
