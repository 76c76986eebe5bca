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
    {Role::kEmbedding, "model.embed_tokens", "token_embd"},
    {Role::kFinalNorm, "model.norm", "output_norm"},
    {Role::kHead, "lm_head", "output"},
    {Role::kAttentionNorm, "model.layers.{}.input_layernorm", "blk.{}.attn_norm"},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    {Role::kKey, "model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
    {Role::kValue, "model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    {Role::kQueryNorm, "model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm"},
    {Role::kKeyNorm, "model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm"},
    {Role::kAttentionOutput, "model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    {Role::kAttentionPostNorm, "model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm"},
    {Role::kMlpNorm, "model.layers.{}.pre_feedforward_layernorm", "blk.{}.ffn_norm"},
    {Role::kGate, "model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"},
    {Role::kUp, "model.layers.{}.mlp.up_proj", "blk.{}.ffn_up"},
    {Role::kDown, "model.layers.{}.mlp.down_proj", "blk.{}.ffn_down"},
    {Role::kMlpPostNorm, "model.layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm"},
}};

constexpr std::size_t kGemma3Pattern = 6;  // every so many layers one sees everything

// The root of the hidden size in the type of the checkpoint's weights, to which transformers rounds it: the one in
// which the models were trained. In BF16 that is another by up to 0.2 %.
double embedding_scale(const files::JsonReader& config, std::size_t hidden_size) {
  constexpr unsigned kDroppedByBF16 = 16;
  constexpr unsigned kDroppedByF16 = 13;
  const float root = std::sqrt(static_cast<float>(hidden_size));
  const std::string type = config.text("dtype", config.text("torch_dtype", "float32"));
  const unsigned dropped = type == "bfloat16" ? kDroppedByBF16 : type == "float16" ? kDroppedByF16 : 0;
  if (dropped == 0) return root;
  const auto bits = std::bit_cast<std::uint32_t>(root);
  const std::uint32_t to_even = (1U << (dropped - 1)) - 1 + ((bits >> dropped) & 1U);
  return std::bit_cast<float>((bits + to_even) >> dropped << dropped);
}

// What Gemma 1 and 3 have in common.
DecoderConfig describe_common(const files::JsonReader& config, const LlamaLineDefaults& defaults) {
  DecoderConfig decoder = read_llama_line(config, defaults);
  ModelSpec& spec = decoder.spec;
  spec.norm.gain_offset = 1.0;
  spec.embedding_scale = embedding_scale(config, spec.hidden_size);
  read_attention_biases(config, spec.biases);
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
  const std::size_t head_size = spec.first_attention()->head_size;
  const RopeSpec global = read_rope_of_type(config, "full_attention", head_size,
                                            {.theta = config.positive("rope_theta", 1e6)}, "rope_scaling");
  const RopeSpec local = read_rope_of_type(config, "sliding_attention", head_size,
                                           {.theta = config.positive("rope_local_base_freq", 1e4)});
  set_layer_types(read_sliding_layers(config, spec.layers.size(), kGemma3Pattern), read_window(config, 4096), local,
                  global, spec);
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

nlohmann::json gemma3_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, "gemma3", {.window = true});
  const files::JsonReader metadata(file.config(), file.path().string());
  config["model_type"] = kGemma3Text.model_type;
  config["architectures"] = {"Gemma3ForCausalLM"};
  config.erase("hidden_act");  // the class has another field
  config["sliding_window"] = metadata.size("gemma3.attention.sliding_window");
  config["sliding_window_pattern"] = metadata.size("gemma3.attention.sliding_window_pattern", kGemma3Pattern);
  config["rope_parameters"] = {
      {"full_attention", config["rope_parameters"]},
      {"sliding_attention",
       {{"rope_type", "default"}, {"rope_theta", metadata.number("gemma3.rope.freq_base_swa", 10000.0)}}}};
  if (metadata.has("gemma3.final_logit_softcapping")) {
    config["final_logit_softcapping"] = metadata.positive("gemma3.final_logit_softcapping");
  }
  // Not written into a GGUF: the largest model, of 62 layers, alone scales by another size than the heads'.
  constexpr int kLayersOf27B = 62;
  const bool largest = config["num_hidden_layers"] == kLayersOf27B;
  config["query_pre_attn_scalar"] =
      largest ? config["hidden_size"].get<std::size_t>() / config["num_attention_heads"].get<std::size_t>()
              : config["head_dim"].get<std::size_t>();
  return config;
}

// A model that also reads images, of which the text model is kept: its configuration in an object of its own, that
// leaves out what it has in common with the class.
ModelSpec describe_gemma3_with_images(const files::JsonReader& config) {
  nlohmann::json text = {{"num_hidden_layers", 26},
                         {"hidden_size", 2304},
                         {"num_attention_heads", 8},
                         {"intermediate_size", 9216},
                         {"vocab_size", 262208}};
  for (const char* field : {"dtype", "torch_dtype"}) {
    if (config.has(field)) text[field] = config.text(field);
  }
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
    .gguf_architecture = "gemma3",
    .names = kGemma3Names,
    .describe = describe_gemma3,
    .config_from_gguf = gemma3_from_gguf,
};

constinit const Architecture kGemma3 = {
    .model_type = "gemma3",
    .names = kGemma3Names,
    .describe = describe_gemma3_with_images,
    .prefix = "model.",
    .other_prefixes = kPrefixesWithImages,
};

}  // namespace ballast::model
