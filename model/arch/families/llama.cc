// Llama 1 to 3 and the many models of its shape: RMSNorm, RoPE, grouped heads, gated SiLU MLP.
#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace {

ModelSpec describe(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(config);
  read_llama_biases(config, decoder.spec.biases);
  return decoder.finish();
}

nlohmann::json config_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, "llama");
  config["architectures"] = {"LlamaForCausalLM"};
  config["attention_bias"] = file.contains("blk.0.attn_q.bias");
  config["mlp_bias"] = file.contains("blk.0.ffn_gate.bias");
  return config;
}

}  // namespace

constinit const Architecture kLlama = {
    .model_type = "llama",
    .gguf_architecture = "llama",
    .names = kLlamaNames,
    .describe = describe,
    .config_from_gguf = config_from_gguf,
    .gguf_interleaves_rope = true,
};

}  // namespace ballast::model
