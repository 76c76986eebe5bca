// ERNIE 4.5's dense models: Llama with interleaved RoPE, one flag for all biases.
#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace {

ModelSpec describe(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(config, {.context = 131072,
                                                   .tied_embeddings = true,
                                                   .epsilon = 1e-5,
                                                   .heads = {.kv_heads = 2, .head_size = 128},
                                                   .rope = {.theta = 500000.0}});
  const bool bias = config.flag("use_bias", false);
  decoder.spec.biases = {.query = bias, .key = bias, .value = bias, .attention_output = bias, .up = bias, .down = bias};
  return decoder.finish();
}

}  // namespace

constinit const Architecture kErnie45 = {
    .model_type = "ernie4_5",
    .names = kLlamaNames,
    .describe = describe,
    .huggingface_interleaves_rope = true,
};

}  // namespace ballast::model
