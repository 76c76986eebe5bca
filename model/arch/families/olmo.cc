// OLMo: Llama with LayerNorms without gain and bias. OLMo 2 and 3: Llama with norms of the outputs of attention and MLP
// instead of their inputs, and of all queries and all keys; OLMo 3 has layers with a window. FlexOlmo: OLMo 2 with
// experts. OLMoE: experts, and Llama's input norms.
#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/gguf_config.h"
#include "model/arch/rope_config.h"

namespace ballast::model {

namespace olmo {
namespace {

constexpr auto kMixtureNames = joined_names(kLlamaNames, kQwenExpertNames);
constexpr auto kFlexNames = joined_names(kOutputNormNames, kQwenExpertNames);

void refuse_clipping(const files::JsonReader& config) {
  if (config.has("clip_qkv")) config.fail("clip_qkv", "is not supported");
}

ModelSpec describe_olmo(const files::JsonReader& config) {
  refuse_clipping(config);
  DecoderConfig decoder = read_llama_line(config);
  decoder.spec.norm = {.kind = NormSpec::Kind::kLayer, .epsilon = 1e-5, .gain = false};
  read_attention_biases(config, decoder.spec.biases);
  return decoder.finish();
}

// Reads the common part of the families in this file.
DecoderConfig describe_common(const files::JsonReader& config, std::size_t context) {
  DecoderConfig decoder = read_llama_line(config, {.context = context, .epsilon = 1e-5});
  decoder.attention.query_key_norm = HeadNormSpec{.kind = HeadNormSpec::Kind::kRmsAllHeads};
  read_attention_biases(config, decoder.spec.biases);
  return decoder;
}

ModelSpec describe_olmo2(const files::JsonReader& config) {
  DecoderConfig decoder = describe_common(config, 2048);
  decoder.spec.layout = BlockLayout::kOutputNorm;
  return decoder.finish();
}

ModelSpec describe_olmo3(const files::JsonReader& config) {
  constexpr std::size_t kPattern = 4;
  ModelSpec spec = describe_olmo2(config);
  const RopeDefaults defaults = {.theta = config.positive("rope_theta", 500000.0)};
  const std::size_t head_size = spec.first_attention()->head_size;
  const RopeSpec global = read_rope_of_type(config, "full_attention", head_size, defaults, "rope_scaling");
  const RopeSpec local = read_rope_of_type(config, "sliding_attention", head_size, defaults);
  set_layer_types(read_sliding_layers(config, spec.layers.size(), kPattern), read_window(config, 4096), local, global,
                  spec);
  return spec;
}

void set_experts(const files::JsonReader& config, ModelSpec& spec) {
  ExpertSpec experts = read_experts(config, "num_experts", "intermediate_size");
  experts.normalize = config.flag("norm_topk_prob", false);
  for (LayerSpec& layer : spec.layers) layer.mlp.experts = experts;
}

ModelSpec describe_olmoe(const files::JsonReader& config) {
  refuse_clipping(config);
  ModelSpec spec = describe_common(config, 4096).finish();
  set_experts(config, spec);
  return spec;
}

ModelSpec describe_flex_olmo(const files::JsonReader& config) {
  DecoderConfig decoder = describe_common(config, 4096);
  decoder.attention.rope = read_rope(config, decoder.attention.head_size, {.theta = 500000.0});
  decoder.spec.norm.epsilon = config.positive("rms_norm_eps", 1e-6);
  decoder.spec.layout = BlockLayout::kOutputNorm;
  ModelSpec spec = decoder.finish();
  set_experts(config, spec);
  return spec;
}

nlohmann::json olmoe_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, "olmoe", {.experts = true});
  const GgufMetadata metadata(file, "olmoe");
  config["architectures"] = {"OlmoeForCausalLM"};
  config["num_experts"] = metadata.size("expert_count");
  config["num_experts_per_tok"] = metadata.size("expert_used_count");
  config["norm_topk_prob"] = false;  // llama.cpp does not normalize them, and the metadata has no key for it
  return config;
}

// Returns the config.json of OLMo 2 or OLMo 3: the GGUFs of both have the name "olmo2".
nlohmann::json olmo2_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, "olmo2", {.window = true});
  const GgufMetadata metadata(file, "olmo2");
  config["architectures"] = {"Olmo2ForCausalLM"};
  config["attention_bias"] = file.contains("blk.0.attn_q.bias");
  const std::size_t window = metadata.count("attention.sliding_window", 0);
  if (window == 0) return config;
  config["model_type"] = kOlmo3.model_type;
  config["architectures"] = {"Olmo3ForCausalLM"};
  config["sliding_window"] = window;
  config["layer_types"] = layer_types_from_gguf(metadata);
  config["rope_parameters"] = {
      {"full_attention", config["rope_parameters"]},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", config["rope_parameters"]["rope_theta"]}}}};
  return config;
}

}  // namespace
}  // namespace olmo

constinit const Architecture kOlmo = {
    .model_type = "olmo",
    .names = kLlamaNames,
    .describe = olmo::describe_olmo,
};

constinit const Architecture kOlmo2 = {
    .model_type = "olmo2",
    .gguf_architecture = "olmo2",
    .names = kOutputNormNames,
    .describe = olmo::describe_olmo2,
    .config_from_gguf = olmo::olmo2_from_gguf,
};

constinit const Architecture kOlmo3 = {
    .model_type = "olmo3",
    .names = kOutputNormNames,
    .describe = olmo::describe_olmo3,
};

constinit const Architecture kOlmoe = {
    .model_type = "olmoe",
    .gguf_architecture = "olmoe",
    .names = olmo::kMixtureNames,
    .fused = kFusedExperts,
    .describe = olmo::describe_olmoe,
    .config_from_gguf = olmo::olmoe_from_gguf,
};

constinit const Architecture kFlexOlmo = {
    .model_type = "flex_olmo",
    .names = olmo::kFlexNames,
    .fused = kFusedExperts,
    .describe = olmo::describe_flex_olmo,
};

}  // namespace ballast::model
