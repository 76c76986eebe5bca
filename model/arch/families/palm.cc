// PaLM's block (arXiv:2204.02311): attention and MLP in parallel on one norm, one key and value head for all queries,
// SwiGLU, no biases. Tensor names and fields are those of the Llama line.
#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace palm {
namespace {

ModelSpec describe(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(config);
  ModelSpec& spec = decoder.spec;
  if (config.size("num_key_value_heads", 1) != 1) config.fail("num_key_value_heads", "must be 1");
  decoder.attention.kv_heads = 1;
  spec.tied_embeddings = config.flag("tie_word_embeddings", true);
  spec.norm.kind = NormSpec::Kind::kLayer;
  spec.norm.epsilon = config.positive("layer_norm_eps", 1e-6);
  spec.layout = BlockLayout::kParallelShared;
  return decoder.finish();
}

}  // namespace
}  // namespace palm

constinit const Architecture kPalm = {
    .model_type = "palm",
    .names = kLlamaNames,
    .describe = palm::describe,
};

}  // namespace ballast::model
