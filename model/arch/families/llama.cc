// Llama 1 to 3 and the many models of its shape: RMSNorm, RoPE, grouped heads, gated SiLU MLP. Seed-OSS: with biases of
// queries, keys and values. Arcee: with an MLP without gate. Helium: with pairs of channels side by side.
#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace {

ModelSpec describe_llama(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(config);
  read_llama_biases(config, decoder.spec.biases);
  return decoder.finish();
}

ModelSpec describe_seed_oss(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(config, {.context = 524288, .heads = {.kv_heads = 8, .head_size = 128}});
  BiasSpec& biases = decoder.spec.biases;
  biases.query = biases.key = biases.value = config.flag("attention_bias", true);
  biases.attention_output = config.flag("attention_out_bias", false);
  biases.up = biases.down = config.flag("mlp_bias", false);
  return decoder.finish();
}

ModelSpec describe_arcee(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(config, {.context = 4096, .epsilon = 1e-5, .activation = "relu2"});
  decoder.mlp.gated = false;
  read_llama_biases(config, decoder.spec.biases);
  return decoder.finish();
}

ModelSpec describe_helium(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(
      config,
      {.context = 4096, .epsilon = 1e-8, .heads = {.kv_heads = 20, .head_size = 128}, .rope = {.theta = 100000.0}});
  read_llama_biases(config, decoder.spec.biases);
  decoder.spec.biases.attention_output = false;
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
    .describe = describe_llama,
    .config_from_gguf = config_from_gguf,
    .gguf_interleaves_rope = true,
};

constinit const Architecture kSeedOss = {
    .model_type = "seed_oss",
    .names = kLlamaNames,
    .describe = describe_seed_oss,
};

constinit const Architecture kArcee = {
    .model_type = "arcee",
    .names = kLlamaNames,
    .describe = describe_arcee,
};

constinit const Architecture kHelium = {
    .model_type = "helium",
    .names = kLlamaNames,
    .describe = describe_helium,
    .huggingface_interleaves_rope = true,
};

}  // namespace ballast::model
