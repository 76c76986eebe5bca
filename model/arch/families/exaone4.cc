// EXAONE 4: norms of what attention and MLP return and of each head's query and key; where some layers have a window,
// those that have none do not rotate.
#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace {

ModelSpec describe(const files::JsonReader& config) {
  constexpr std::size_t kPattern = 4;
  DecoderConfig decoder = read_llama_line(config, {.epsilon = 1e-5, .heads = {.kv_heads = 32}});
  decoder.spec.layout = BlockLayout::kOutputNorm;
  decoder.attention.query_key_norm = true;
  ModelSpec spec = decoder.finish();
  if (config.json().contains("sliding_window") && !config.has("sliding_window")) {
    check_layer_types(config, spec.layers.size(), {"full_attention"});
    return spec;
  }
  set_layer_types(read_sliding_layers(config, spec.layers.size(), kPattern), read_window(config, 4096),
                  *decoder.attention.rope, {}, spec);
  return spec;
}

}  // namespace

constinit const Architecture kExaone4 = {
    .model_type = "exaone4",
    .names = kOutputNormNames,
    .describe = describe,
};

}  // namespace ballast::model
