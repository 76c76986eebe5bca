// Seed-OSS: Llama with biases of queries, keys and values.
#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace {

ModelSpec describe(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(config, {.context = 524288, .heads = {.kv_heads = 8, .head_size = 128}});
  BiasSpec& biases = decoder.spec.biases;
  biases.query = biases.key = biases.value = config.flag("attention_bias", true);
  biases.attention_output = config.flag("attention_out_bias", false);
  biases.up = biases.down = config.flag("mlp_bias", false);
  return decoder.finish();
}

}  // namespace

constinit const Architecture kSeedOss = {
    .model_type = "seed_oss",
    .names = kLlamaNames,
    .describe = describe,
};

}  // namespace ballast::model
