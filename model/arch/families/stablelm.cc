// StableLM: Llama with LayerNorms and a quarter of each head rotated; some have attention and MLP in parallel.
#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace {

ModelSpec describe(const files::JsonReader& config) {
  DecoderConfig decoder =
      read_llama_line(config, {.context = 4096, .heads = {.kv_heads = 32}, .rope = {.partial = 0.25}});
  ModelSpec& spec = decoder.spec;
  spec.norm = {.kind = NormSpec::Kind::kLayer, .epsilon = config.positive("layer_norm_eps", 1e-5), .bias = true};
  if (config.flag("use_parallel_residual", false)) spec.layout = BlockLayout::kParallelShared;
  spec.biases.query = spec.biases.key = spec.biases.value = config.flag("use_qkv_bias", false);
  // A LayerNorm with gains of its own for each head.
  if (config.flag("qk_layernorm", false)) config.fail("qk_layernorm", "true is not supported");
  return decoder.finish();
}

}  // namespace

constinit const Architecture kStableLm = {
    .model_type = "stablelm",
    .names = kLlamaNames,
    .describe = describe,
};

}  // namespace ballast::model
