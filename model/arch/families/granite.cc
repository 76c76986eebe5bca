// Granite 3: Llama with factors on embeddings, scores, the blocks' contributions to the residual stream, and logits.
// Its mixtures have experts in place of every MLP, some with an additional shared MLP. HyperCLOVA X: with output norms
// of attention and MLP, and logits multiplied, not divided.
#include "model/arch/hybrids/granite.h"

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "model/arch/architectures.h"
#include "model/arch/gguf_config.h"
#include "model/arch/gguf_fields.h"

namespace ballast::model {

DecoderConfig read_granite(const files::JsonReader& config, double attention_multiplier) {
  DecoderConfig decoder = read_llama_line(config);
  ModelSpec& spec = decoder.spec;
  read_attention_biases(config, spec.biases);
  // Replaces 1 / sqrt(head size).
  decoder.attention.scale = config.positive("attention_multiplier", attention_multiplier);
  spec.embedding_scale = config.positive("embedding_multiplier", 1.0);
  spec.residual_scale = config.positive("residual_multiplier", 1.0);
  spec.logit_scale = 1.0 / config.positive("logits_scaling", 1.0);
  return decoder;
}

ExpertSpec read_granite_experts(const files::JsonReader& config) {
  ExpertSpec experts = read_experts(config, "num_local_experts", "intermediate_size");
  experts.normalize = true;
  return experts;
}

namespace granite {
namespace {

constexpr std::array<TensorNames, 3> kSharedNames{{
    {Role::kSharedGate, "model.layers.{}.shared_mlp.gate_linear", "blk.{}.ffn_gate_shexp"},
    {Role::kSharedUp, "model.layers.{}.shared_mlp.up_linear", "blk.{}.ffn_up_shexp"},
    {Role::kSharedDown, "model.layers.{}.shared_mlp.output_linear", "blk.{}.ffn_down_shexp"},
}};
constexpr auto kMixtureNames = joined_names(kLlamaNames, kGraniteExpertNames, kSharedNames);
constexpr std::array kSharedGateAndUp = {Role::kSharedGate, Role::kSharedUp};
constexpr std::array<FusedTensor, 3> kFused{{
    kFusedGraniteExperts[0],
    kFusedGraniteExperts[1],
    {"model.layers.{}.shared_mlp.input_linear", "", kSharedGateAndUp, FusedTensor::Runs::kOne},
}};
constexpr std::array<TensorNames, 2> kPostNorms{{
    {Role::kAttentionPostNorm, "model.layers.{}.post_norm1", ""},
    {Role::kMlpPostNorm, "model.layers.{}.post_norm2", ""},
}};
constexpr auto kHyperClovaNames = joined_names(kLlamaNames, kPostNorms);

ModelSpec describe_by(const files::JsonReader& config, double attention_multiplier) {
  DecoderConfig decoder = read_granite(config, attention_multiplier);
  read_llama_biases(config, decoder.spec.biases);
  return decoder.finish();
}

ModelSpec describe_dense(const files::JsonReader& config) {
  return describe_by(config, 1.0);
}

ModelSpec describe_mixture(const files::JsonReader& config) {
  ModelSpec spec = describe_dense(config);
  for (LayerSpec& layer : spec.layers) layer.mlp.experts = read_granite_experts(config);
  return spec;
}

ModelSpec describe_shared_mixture(const files::JsonReader& config) {
  ModelSpec spec = describe_mixture(config);
  const std::size_t shared = config.count("shared_intermediate_size", 0);
  for (LayerSpec& layer : spec.layers) layer.mlp.experts->shared_size = shared;
  return spec;
}

ModelSpec describe_hyperclovax(const files::JsonReader& config) {
  ModelSpec spec = describe_by(config, read_llama_line(config).attention.scale);
  spec.post_norms = config.flag("use_post_norm", true);
  spec.logit_scale = config.positive("logits_scaling", 1.0);
  return spec;
}

nlohmann::json granite_from_gguf(const files::GgufFile& file, std::string_view architecture, bool experts) {
  nlohmann::json config = llama_line_from_gguf(file, architecture, {.experts = experts});
  const GgufMetadata metadata(file, architecture);
  config["attention_bias"] = file.contains("blk.0.attn_q.bias");
  config["mlp_bias"] = file.contains("blk.0.ffn_gate.bias");
  config["attention_multiplier"] = metadata.positive("attention.scale", 1.0);
  config["embedding_multiplier"] = metadata.positive("embedding_scale", 1.0);
  config["residual_multiplier"] = metadata.positive("residual_scale", 1.0);
  config["logits_scaling"] = metadata.positive("logit_scale", 1.0);
  return config;
}

nlohmann::json dense_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = granite_from_gguf(file, "granite", false);
  config["architectures"] = {"GraniteForCausalLM"};
  return config;
}

std::vector<files::GgufField> granite_to_gguf(const ModelSpec& spec, std::string_view architecture,
                                              std::optional<ExpertSpec> experts) {
  GgufLine line = {.architecture = architecture, .experts = experts, .other_biases = true, .rope_factors = true};
  line.embedding_scale = spec.embedding_scale;
  line.attention_scale = spec.first_attention()->scale;
  line.residual_scale = spec.residual_scale;
  line.logit_scale = spec.logit_scale;
  std::vector<files::GgufField> fields = llama_line_to_gguf(spec, line);
  fields.push_back(gguf_field(line, "attention.scale", line.attention_scale));
  fields.push_back(gguf_field(line, "embedding_scale", line.embedding_scale));
  fields.push_back(gguf_field(line, "residual_scale", line.residual_scale));
  fields.push_back(gguf_field(line, "logit_scale", 1.0 / line.logit_scale));
  return fields;
}

std::vector<files::GgufField> dense_to_gguf(const ModelSpec& spec) {
  return granite_to_gguf(spec, "granite", {});
}

std::vector<files::GgufField> mixture_to_gguf(const ModelSpec& spec) {
  return granite_to_gguf(spec, "granitemoe", gguf_experts(spec, {.normalize = true}));
}

// Converts a mixture's metadata, with or without a shared MLP.
nlohmann::json mixture_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = granite_from_gguf(file, "granitemoe", true);
  const GgufMetadata metadata(file, "granitemoe");
  config["num_local_experts"] = metadata.size("expert_count");
  config["num_experts_per_tok"] = metadata.size("expert_used_count");
  const std::size_t shared = metadata.count("expert_shared_feed_forward_length", 0);
  config["architectures"] = {shared > 0 ? "GraniteMoeSharedForCausalLM" : "GraniteMoeForCausalLM"};
  if (shared == 0) return config;
  config["model_type"] = kGraniteMoeShared.model_type;
  config["shared_intermediate_size"] = shared;
  return config;
}

}  // namespace
}  // namespace granite

constinit const Architecture kGranite = {
    .model_type = "granite",
    .gguf_architecture = "granite",
    .names = kLlamaNames,
    .describe = granite::describe_dense,
    .config_from_gguf = granite::dense_from_gguf,
    .gguf_fields = granite::dense_to_gguf,
    .gguf_interleaves_rope = true,
};

constinit const Architecture kGraniteMoe = {
    .model_type = "granitemoe",
    .gguf_architecture = "granitemoe",
    .names = granite::kMixtureNames,
    .fused = granite::kFused,
    .describe = granite::describe_mixture,
    .config_from_gguf = granite::mixture_from_gguf,
    .gguf_fields = granite::mixture_to_gguf,
    .gguf_interleaves_rope = true,
};

constinit const Architecture kGraniteMoeShared = {
    .model_type = "granitemoeshared",
    .gguf_architecture = "granitemoe",
    .names = granite::kMixtureNames,
    .fused = granite::kFused,
    .describe = granite::describe_shared_mixture,
    .gguf_fields = granite::mixture_to_gguf,
    .gguf_interleaves_rope = true,
};

constinit const Architecture kHyperClovaX = {
    .model_type = "hyperclovax",
    .names = granite::kHyperClovaNames,
    .describe = granite::describe_hyperclovax,
};

}  // namespace ballast::model
