// StableLM: Llama with LayerNorms and a quarter of each head rotated; some have attention and MLP in parallel, and
// LayerNorms of each head of queries and keys (StableLM 2 12B).
#include <array>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/gguf_config.h"

namespace ballast::model {

namespace stablelm {
namespace {

// Each head has a tensor of gains; ballast writes one tensor for all.
constexpr std::array<TensorNames, 2> kHeadNorms{{
    {Role::kQueryNorm, "model.layers.{}.self_attn.q_layernorm.norms.{}", ""},
    {Role::kKeyNorm, "model.layers.{}.self_attn.k_layernorm.norms.{}", ""},
}};
constexpr auto kNames = joined_names(kLlamaNames, kHeadNorms);

ModelSpec describe(const files::JsonReader& config) {
  DecoderConfig decoder =
      read_llama_line(config, {.context = 4096, .heads = {.kv_heads = 32}, .rope = {.partial = 0.25}});
  ModelSpec& spec = decoder.spec;
  spec.norm = {.kind = NormSpec::Kind::kLayer, .epsilon = config.positive("layer_norm_eps", 1e-5), .bias = true};
  if (config.flag("use_parallel_residual", false)) spec.layout = BlockLayout::kParallelShared;
  spec.biases.query = spec.biases.key = spec.biases.value = config.flag("use_qkv_bias", false);
  if (config.flag("qk_layernorm", false)) {
    decoder.attention.query_key_norm = HeadNormSpec{.kind = HeadNormSpec::Kind::kLayer};
  }
  return decoder.finish();
}

nlohmann::json config_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, "stablelm", {.partial_rotation = true, .layer_norm = true});
  const GgufMetadata metadata(file, "stablelm");
  if (file.contains("blk.0.attn_q_norm.weight")) {
    metadata.fail("block_count", "norms of queries and keys are not supported in a GGUF of this family");
  }
  config["architectures"] = {"StableLmForCausalLM"};
  // The key is false if a layer has one norm for attention and MLP.
  config["use_parallel_residual"] = !file.contains("blk.0.ffn_norm.weight");
  config["use_qkv_bias"] = file.contains("blk.0.attn_q.bias");
  return config;
}

}  // namespace
}  // namespace stablelm

constinit const Architecture kStableLm = {
    .model_type = "stablelm",
    .gguf_architecture = "stablelm",
    .names = stablelm::kNames,
    .describe = stablelm::describe,
    .config_from_gguf = stablelm::config_from_gguf,
};

}  // namespace ballast::model
