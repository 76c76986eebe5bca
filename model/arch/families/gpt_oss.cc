// gpt-oss: experts in every layer, with biases and a limited gate, in MXFP4 or transposed; each head has a learned
// logit in the denominator of its softmax (a sink); a window in every other layer.
#include <array>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/gguf_config.h"

namespace ballast::model {

namespace gpt_oss {
namespace {

constexpr std::array<TensorNames, 7> kOwnNames{{
    {Role::kSinkLogits, "model.layers.{}.self_attn.sinks", "blk.{}.attn_sinks.weight"},
    {Role::kMlpNorm, "", "blk.{}.post_attention_norm"},
    {Role::kRouter, "model.layers.{}.mlp.router", "blk.{}.ffn_gate_inp"},
    {Role::kExpertGate, "model.layers.{}.mlp.experts.{}.gate_proj", "blk.{}.ffn_gate_exps"},
    {Role::kExpertUp, "model.layers.{}.mlp.experts.{}.up_proj", "blk.{}.ffn_up_exps"},
    {Role::kExpertDown, "model.layers.{}.mlp.experts.{}.down_proj", "blk.{}.ffn_down_exps"},
    {Role::kExpertDown, "model.layers.{}.mlp.experts.down_proj", ""},
}};
constexpr auto kNames = joined_names(kLlamaNames, kOwnNames);

constexpr std::array<FusedTensor, 1> kFused{
    {{"model.layers.{}.mlp.experts.gate_up_proj", "", kGateAndUp, FusedTensor::Runs::kRows}}};

constexpr std::size_t kPattern = 2;  // every second layer has full attention
constexpr double kSigmoidGain = 1.702;

ModelSpec describe(const files::JsonReader& config) {
  // By default the class stretches the rotation, and every published configuration has the field.
  if (!config.has("rope_parameters") && !config.has("rope_scaling")) config.fail("rope_parameters", "missing");
  DecoderConfig decoder = read_llama_line(
      config,
      {.context = 131072, .epsilon = 1e-5, .heads = {.kv_heads = 8, .head_size = 64}, .rope = {.theta = 150000.0}});
  if (config.number("swiglu_alpha", kSigmoidGain) != kSigmoidGain) {
    config.fail("swiglu_alpha", "is not 1.702: not supported");
  }
  decoder.mlp.activation = Activation::kGeluSigmoid;  // the field hidden_act is ignored
  decoder.mlp.limit = config.positive("swiglu_limit", 7.0);
  decoder.mlp.up_offset = 1.0;
  ExpertSpec experts = read_experts(config, "num_local_experts", "intermediate_size");
  experts.normalize = true;
  decoder.mlp.experts = experts;
  decoder.attention.sink_logits = true;
  BiasSpec& biases = decoder.spec.biases;
  biases.query = biases.key = biases.value = biases.attention_output = config.flag("attention_bias", true);
  biases.router = biases.up = biases.down = true;
  ModelSpec spec = decoder.finish();
  const std::optional<RopeSpec> rope = decoder.attention.rope;
  set_layer_types(read_sliding_layers(config, decoder.layers, kPattern), read_window(config, 128), *rope, rope, spec);
  return spec;
}

nlohmann::json config_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, kGptOss.gguf_architecture, {.experts = true, .window = true});
  const GgufMetadata metadata(file, kGptOss.gguf_architecture);
  config["model_type"] = kGptOss.model_type;
  config["architectures"] = {"GptOssForCausalLM"};
  config["num_local_experts"] = metadata.size("expert_count");
  config["num_experts_per_tok"] = metadata.size("expert_used_count");
  config["intermediate_size"] = metadata.size("expert_feed_forward_length");
  config["sliding_window"] = metadata.size("attention.sliding_window");
  config["rope_parameters"]["truncate"] = false;  // not stored in a GGUF; all published models have this value
  return config;
}

}  // namespace
}  // namespace gpt_oss

constinit const Architecture kGptOss = {
    .model_type = "gpt_oss",
    .gguf_architecture = "gpt-oss",
    .names = gpt_oss::kNames,
    .fused = gpt_oss::kFused,
    .describe = gpt_oss::describe,
    .config_from_gguf = gpt_oss::config_from_gguf,
    .transposed_experts = true,
};

}  // namespace ballast::model
