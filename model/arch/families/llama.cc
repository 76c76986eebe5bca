// Llama 1 to 3 and the many models of this structure: RMSNorm, RoPE, grouped heads, gated SiLU MLP. Seed-OSS has biases
// of queries, keys and values, Arcee an MLP without a gate, Helium pairs of adjacent channels in its rotation, CWM a
// window in most layers. InternLM 3 and IQuest-Coder are Llama with other defaults, EuroBERT sees both sides.
#include <array>
#include <cstddef>
#include <vector>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/gguf_config.h"
#include "model/arch/gguf_fields.h"

namespace ballast::model {

namespace llama {
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

ModelSpec describe_cwm(const files::JsonReader& config) {
  constexpr std::size_t kPattern = 4;
  // By default the configuration class stretches the rotation, unlike every other one.
  if (!config.has("rope_parameters") && !config.has("rope_scaling")) config.fail("rope_parameters", "missing");
  DecoderConfig decoder = read_llama_line(
      config, {.context = 131072, .epsilon = 1e-5, .heads = {.kv_heads = 8, .head_size = 128}, .rope = {.theta = 1e6}});
  decoder.spec.biases.up = decoder.spec.biases.down = config.flag("mlp_bias", false);
  ModelSpec spec = decoder.finish();
  std::vector<bool> sliding(decoder.layers);
  for (std::size_t layer = 0; layer < decoder.layers; ++layer) sliding[layer] = layer % kPattern != 0;
  if (config.has("layer_types")) sliding = read_sliding_layers(config, decoder.layers, kPattern);
  const RopeSpec& rope = *decoder.attention.rope;
  set_layer_types(sliding, read_window(config, 8192), rope, rope, spec);
  return spec;
}

ModelSpec describe_internlm3(const files::JsonReader& config) {
  DecoderConfig decoder =
      read_llama_line(config, {.context = 32768, .epsilon = 1e-5, .heads = {.kv_heads = 2, .head_size = 128}});
  BiasSpec& biases = decoder.spec.biases;
  read_llama_biases(config, biases);
  if (config.has("qkv_bias")) biases.query = biases.key = biases.value = config.flag("qkv_bias");
  if (config.has("bias")) biases.attention_output = biases.up = biases.down = config.flag("bias");
  return decoder.finish();
}

ModelSpec describe_iquestcoder(const files::JsonReader& config) {
  if (config.has("clip_qkv")) config.fail("clip_qkv", "is not supported");
  if (config.flag("use_sliding_window", false)) config.fail("use_sliding_window", "true is not supported");
  DecoderConfig decoder =
      read_llama_line(config, {.context = 131072, .epsilon = 1e-5, .heads = {.kv_heads = 8, .head_size = 128}});
  read_llama_biases(config, decoder.spec.biases);
  return decoder.finish();
}

ModelSpec describe_eurobert(const files::JsonReader& config) {
  DecoderConfig encoder = read_llama_line(config, {.context = 8192, .epsilon = 1e-5});
  encoder.spec.causal = false;
  read_llama_biases(config, encoder.spec.biases);
  ModelSpec& spec = encoder.spec;
  read_encoder_heads(config, {.name = "EuroBert", .classifier = Activation::kGelu}, spec);
  spec.biases.head = spec.has_head && spec.biases.up;
  spec.biases.head_transform = false;
  if (spec.classifier && !spec.classifier->of_tokens) {
    const bool late = config.text("classifier_pooling", "late") == "late";
    spec.classifier->pools_scores = late;
    spec.classifier->pooling = late ? Pooling::kMean : read_classifier_pooling(config, "bos");
  }
  return encoder.finish();
}

constexpr std::array<TensorNames, 3> kEncoderNames{{
    {Role::kHeadBias, "lm_head.bias", ""},
    {Role::kClassifierTransform, "dense", ""},
    {Role::kClassifier, "classifier", ""},
}};
constexpr auto kEuroBertNames = joined_names(kLlamaNames, kEncoderNames);

// Some of its GGUFs have another name for the MLP's norm.
constexpr std::array<TensorNames, 1> kOtherMlpNorm{{{Role::kMlpNorm, "", "blk.{}.post_attention_norm"}}};
constexpr auto kSeedOssNames = joined_names(kLlamaNames, kOtherMlpNorm);

nlohmann::json seed_oss_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, "seed_oss");
  config["architectures"] = {"SeedOssForCausalLM"};
  config["attention_bias"] = file.contains("blk.0.attn_q.bias");
  config["attention_out_bias"] = file.contains("blk.0.attn_output.bias");
  config["mlp_bias"] = file.contains("blk.0.ffn_up.bias");
  return config;
}

nlohmann::json arcee_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, "arcee");
  config["architectures"] = {"ArceeForCausalLM"};
  config["hidden_act"] = "relu2";
  return config;
}

nlohmann::json config_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, "llama", {.experts = true});
  const GgufMetadata metadata(file, "llama");
  if (const std::size_t experts = metadata.count("expert_count", 0); experts > 0) {
    config["model_type"] = kMixtral.model_type;
    config["architectures"] = {"MixtralForCausalLM"};
    config["num_local_experts"] = experts;
    config["num_experts_per_tok"] = metadata.size("expert_used_count");
    return config;
  }
  config["architectures"] = {"LlamaForCausalLM"};
  config["attention_bias"] = file.contains("blk.0.attn_q.bias");
  config["mlp_bias"] = file.contains("blk.0.ffn_gate.bias");
  return config;
}

}  // namespace
}  // namespace llama

constinit const Architecture kLlama = {
    .model_type = "llama",
    .gguf_architecture = "llama",
    .names = kLlamaNames,
    .describe = llama::describe_llama,
    .config_from_gguf = llama::config_from_gguf,
    .gguf_fields = [](const ModelSpec& spec) { return llama_line_to_gguf(spec, kLlamaGguf); },
    .gguf_interleaves_rope = true,
};

constinit const Architecture kSeedOss = {
    .model_type = "seed_oss",
    .gguf_architecture = "seed_oss",
    .names = llama::kSeedOssNames,
    .describe = llama::describe_seed_oss,
    .config_from_gguf = llama::seed_oss_from_gguf,
};

constinit const Architecture kArcee = {
    .model_type = "arcee",
    .gguf_architecture = "arcee",
    .names = kLlamaNames,
    .describe = llama::describe_arcee,
    .config_from_gguf = llama::arcee_from_gguf,
    .gguf_interleaves_rope = true,
};

constinit const Architecture kHelium = {
    .model_type = "helium",
    .names = kLlamaNames,
    .describe = llama::describe_helium,
    .huggingface_interleaves_rope = true,
};

constinit const Architecture kCwm = {
    .model_type = "cwm",
    .names = kLlamaNames,
    .describe = llama::describe_cwm,
};

constinit const Architecture kInternLm3 = {
    .model_type = "internlm3",
    .names = kLlamaNames,
    .describe = llama::describe_internlm3,
};

constinit const Architecture kEuroBert = {
    .model_type = "eurobert",
    .names = llama::kEuroBertNames,
    .describe = llama::describe_eurobert,
};
constinit const Architecture kIquestCoder = {
    .model_type = "iquestcoder",
    .names = kLlamaNames,
    .describe = llama::describe_iquestcoder,
};

}  // namespace ballast::model
