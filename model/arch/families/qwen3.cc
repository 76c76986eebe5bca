// Qwen3: Llama with a norm over each head of queries and keys.
#include <vector>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/gguf_config.h"
#include "model/arch/gguf_fields.h"

namespace ballast::model {

namespace qwen3 {
namespace {

ModelSpec describe(const files::JsonReader& config) {
  // The configuration class has a default that no other family has.
  if (!config.has("head_dim")) config.fail("head_dim", "missing");
  DecoderConfig decoder = read_llama_line(config);
  read_attention_biases(config, decoder.spec.biases);
  decoder.attention.query_key_norm = HeadNormSpec{};
  ModelSpec spec = decoder.finish();
  if (config.flag("use_sliding_window", false)) set_windows(spec, read_windows_above(config, decoder.layers));
  return spec;
}

nlohmann::json config_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, "qwen3");
  config["architectures"] = {"Qwen3ForCausalLM"};
  config["attention_bias"] = file.contains("blk.0.attn_q.bias");
  return config;
}

}  // namespace
}  // namespace qwen3

constinit const Architecture kQwen3 = {
    .model_type = "qwen3",
    .gguf_architecture = "qwen3",
    .names = kLlamaNames,
    .describe = qwen3::describe,
    .config_from_gguf = qwen3::config_from_gguf,
    .gguf_fields = [](const ModelSpec& spec) { return llama_line_to_gguf(spec, {.architecture = "qwen3"}); },
};

}  // namespace ballast::model
