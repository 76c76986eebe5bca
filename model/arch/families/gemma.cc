// Gemma 1 and the text models of Gemma 3: gains stored minus one, scaled embeddings, GELU in the gate. Gemma 3 also
// normalizes queries, keys and what attention and MLP return, and has layers with a window and a rotation of their own.
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/rope_config.h"

namespace ballast::model {

namespace {

constexpr std::array<TensorNames, 16> kGemma3Names{{
    {Role::kEmbedding, "model.embed_tokens", ""},
    {Role::kFinalNorm, "model.norm", ""},
    {Role::kHead, "lm_head", ""},
    {Role::kAttentionNorm, "model.layers.{}.input_layernorm", ""},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj", ""},
    {Role::kKey, "model.layers.{}.self_attn.k_proj", ""},
    {Role::kValue, "model.layers.{}.self_attn.v_proj", ""},
    {Role::kQueryNorm, "model.layers.{}.self_attn.q_norm", ""},
    {Role::kKeyNorm, "model.layers.{}.self_attn.k_norm", ""},
    {Role::kAttentionOutput, "model.layers.{}.self_attn.o_proj", ""},
    {Role::kAttentionPostNorm, "model.layers.{}.post_attention_layernorm", ""},
    {Role::kMlpNorm, "model.layers.{}.pre_feedforward_layernorm", ""},
    {Role::kGate, "model.layers.{}.mlp.gate_proj", ""},
    {Role::kUp, "model.layers.{}.mlp.up_proj", ""},
    {Role::kDown, "model.layers.{}.mlp.down_proj", ""},
    {Role::kMlpPostNorm, "model.layers.{}.post_feedforward_layernorm", ""},
}};

// The root of the hidden size in BF16: transformers rounds it to the type of the embeddings, and that is the one in
// which the models are published and were trained. In F32 it would be another by up to 0.2 %.
double embedding_scale(std::size_t hidden_size) {
  const auto bits = std::bit_cast<std::uint32_t>(std::sqrt(static_cast<float>(hidden_size)));
  const std::uint32_t to_even = 0x7FFFU + ((bits >> 16U) & 1U);
  return std::bit_cast<float>((bits + to_even) & 0xFFFF0000U);
}

// What Gemma 1 and 3 have in common.
DecoderConfig describe_common(const files::JsonReader& config, const LlamaLineDefaults& defaults) {
  DecoderConfig decoder = read_llama_line(config, defaults);
  ModelSpec& spec = decoder.spec;
  spec.norm.gain_offset = 1.0;
  spec.embedding_scale = embedding_scale(spec.hidden_size);
  BiasSpec& biases = spec.biases;
  biases.query = biases.key = biases.value = biases.attention_output = config.flag("attention_bias", false);
  if (config.flag("use_bidirectional_attention", false)) {
    config.fail("use_bidirectional_attention", "true is not supported");
  }
  return decoder;
}

ModelSpec describe_gemma(const files::JsonReader& config) {
  DecoderConfig decoder = describe_common(config, {.context = 8192,
                                                   .tied_embeddings = true,
                                                   .activation = "gelu_pytorch_tanh",
                                                   .heads = {.kv_heads = 16, .head_size = 256}});
  // The first configurations say "gelu" and mean the approximation, as transformers reads them.
  if (decoder.mlp.activation == Activation::kGelu) decoder.mlp.activation = Activation::kGeluTanh;
  return decoder.finish();
}

void set_layer_attention(const files::JsonReader& config, ModelSpec& spec) {
  constexpr std::size_t kPattern = 6;
  const std::size_t head_size = spec.first_attention()->head_size;
  const RopeSpec global = read_rope_of_type(config, "full_attention", head_size,
                                            {.theta = config.positive("rope_theta", 1e6)}, "rope_scaling");
  const RopeSpec local = read_rope_of_type(config, "sliding_attention", head_size,
                                           {.theta = config.positive("rope_local_base_freq", 1e4)});
  set_layer_types(read_sliding_layers(config, spec.layers.size(), kPattern), read_window(config, 4096), local, global,
                  spec);
}

ModelSpec describe_gemma3(const files::JsonReader& config) {
  DecoderConfig decoder =
      describe_common(config, {.context = 131072, .tied_embeddings = true, .heads = {.kv_heads = 4, .head_size = 256}});
  decoder.mlp.activation = read_activation(config, "hidden_activation", "gelu_pytorch_tanh");
  decoder.spec.post_norms = true;
  decoder.attention.query_key_norm = true;
  decoder.attention.scale = 1.0 / std::sqrt(config.positive("query_pre_attn_scalar", 256));
  if (config.has("final_logit_softcapping")) decoder.spec.logit_cap = config.positive("final_logit_softcapping");
  if (config.has("attn_logit_softcapping")) config.fail("attn_logit_softcapping", "is not supported");
  ModelSpec spec = decoder.finish();
  set_layer_attention(config, spec);
  return spec;
}

// A model that also reads images, of which the text model is kept: its configuration in an object of its own, that
// leaves out what it has in common with the class.
ModelSpec describe_gemma3_with_images(const files::JsonReader& config) {
  nlohmann::json text = {{"num_hidden_layers", 26},
                         {"hidden_size", 2304},
                         {"num_attention_heads", 8},
                         {"intermediate_size", 9216},
                         {"vocab_size", 262208}};
  text.update(config.object("text_config").json());
  ModelSpec spec = describe_gemma3(files::JsonReader(text, config.context() + ": text_config"));
  spec.tied_embeddings = config.flag("tie_word_embeddings", spec.tied_embeddings);
  return spec;
}

constexpr std::array<std::string_view, 2> kPrefixesWithImages = {"language_model.model.", "model.language_model."};

}  // namespace

constinit const Architecture kGemma = {
    .model_type = "gemma",
    .names = kLlamaNames,
    .describe = describe_gemma,
};

constinit const Architecture kGemma3Text = {
    .model_type = "gemma3_text",
    .names = kGemma3Names,
    .describe = describe_gemma3,
};

constinit const Architecture kGemma3 = {
    .model_type = "gemma3",
    .names = kGemma3Names,
    .describe = describe_gemma3_with_images,
    .prefix = "model.",
    .other_prefixes = kPrefixesWithImages,
};

}  // namespace ballast::model
