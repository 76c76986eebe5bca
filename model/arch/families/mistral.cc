// Mistral: Llama with a sliding window in every layer, whose GGUFs say "llama"; Ministral: in some layers.
#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace {

ModelSpec describe_mistral(const files::JsonReader& config) {
  ModelSpec spec = read_llama_line(config).finish();
  set_uniform_window(config, 4096, spec);
  return spec;
}

ModelSpec describe_ministral(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(config, {.context = 131072, .heads = {.kv_heads = 8}});
  ModelSpec spec = decoder.finish();
  set_windows(spec, read_windows(config, decoder.layers));
  return spec;
}

}  // namespace

constinit const Architecture kMistral = {
    .model_type = "mistral",
    .names = kLlamaNames,
    .describe = describe_mistral,
};

constinit const Architecture kMinistral = {
    .model_type = "ministral",
    .names = kLlamaNames,
    .describe = describe_ministral,
};

}  // namespace ballast::model
