#include "model/arch/llama.h"

#include <array>
#include <string>

#include "model/arch/rope_config.h"

namespace ballast::model {

namespace {

constexpr std::array<TensorNames, 12> kNames{{
    {Role::kEmbedding, "model.embed_tokens", "token_embd"},
    {Role::kFinalNorm, "model.norm", "output_norm"},
    {Role::kHead, "lm_head", "output"},
    {Role::kAttentionNorm, "model.layers.{}.input_layernorm", "blk.{}.attn_norm"},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    {Role::kKey, "model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
    {Role::kValue, "model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    {Role::kAttentionOutput, "model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    {Role::kMlpNorm, "model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"},
    {Role::kGate, "model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"},
    {Role::kUp, "model.layers.{}.mlp.up_proj", "blk.{}.ffn_up"},
    {Role::kDown, "model.layers.{}.mlp.down_proj", "blk.{}.ffn_down"},
}};

ModelSpec describe(const ConfigReader& config) {
  ModelSpec spec;
  spec.layers = config.size("num_hidden_layers");
  spec.hidden_size = config.size("hidden_size");
  spec.heads = config.size("num_attention_heads");
  spec.kv_heads = config.size("num_key_value_heads", spec.heads);
  if (!config.has("head_dim") && spec.hidden_size % spec.heads != 0) {
    config.fail("num_attention_heads", "must divide hidden_size when head_dim is not given");
  }
  spec.head_size = config.size("head_dim", spec.hidden_size / spec.heads);
  spec.mlp_size = config.size("intermediate_size");
  spec.vocab_size = config.size("vocab_size");
  spec.context_length = config.size("max_position_embeddings", 2048);
  spec.norm_epsilon = config.number("rms_norm_eps", 1e-6);
  spec.rope = read_rope(config);
  spec.attention_bias = config.flag("attention_bias", false);
  spec.mlp_bias = config.flag("mlp_bias", false);
  spec.tied_embeddings = config.flag("tie_word_embeddings", false);
  const std::string activation = config.text("hidden_act", "silu");
  if (activation != "silu") config.fail("hidden_act", "'" + activation + "' is not supported; supported: silu");
  return spec;
}

nlohmann::json config_from_gguf(const GgufFile& file) {
  const ConfigReader metadata(file.config(), file.path().string());
  if (metadata.has("llama.expert_count") && metadata.number("llama.expert_count") > 0) {
    metadata.fail("llama.expert_count", "mixtures of experts are not supported");
  }
  const std::size_t hidden = metadata.size("llama.embedding_length");
  const std::size_t heads = metadata.size("llama.attention.head_count");
  const std::size_t head_size = metadata.size("llama.attention.key_length", hidden / heads);
  const TensorView embedding = file.tensor("token_embd.weight");
  if (embedding.shape.size() != 2) {
    throw Error(file.path().string() + ": token_embd.weight", "has shape " + shape_string(embedding.shape));
  }
  nlohmann::json config = {
      {"architectures", {"LlamaForCausalLM"}},
      {"model_type", "llama"},
      {"hidden_act", "silu"},
      {"num_hidden_layers", metadata.size("llama.block_count")},
      {"hidden_size", hidden},
      {"num_attention_heads", heads},
      {"num_key_value_heads", metadata.size("llama.attention.head_count_kv", heads)},
      {"head_dim", head_size},
      {"intermediate_size", metadata.size("llama.feed_forward_length")},
      {"vocab_size", embedding.shape[0]},
      {"max_position_embeddings", metadata.size("llama.context_length", 2048)},
      {"rms_norm_eps", metadata.number("llama.attention.layer_norm_rms_epsilon")},
      {"rope_parameters", rope_parameters_from_gguf(file, "llama.", head_size)},
      {"tie_word_embeddings", !file.contains("output.weight")},
      {"attention_bias", file.contains("blk.0.attn_q.bias")},
      {"mlp_bias", file.contains("blk.0.ffn_gate.bias")},
  };
  for (const char* key : {"bos_token_id", "eos_token_id"}) {
    const std::string source = "tokenizer.ggml." + std::string(key);
    if (metadata.has(source)) config[key] = metadata.json().at(source);
  }
  return config;
}

}  // namespace

const Architecture kLlama = {
    .model_type = "llama",
    .gguf_architecture = "llama",
    .names = kNames,
    .describe = describe,
    .config_from_gguf = config_from_gguf,
    .gguf_interleaves_rope = true,
};

}  // namespace ballast::model
