// LFM2: gated short convolutions, and in some layers attention with norms over heads; with experts in all but the first
// layers, or without.
#include <algorithm>
#include <array>
#include <vector>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/gguf_config.h"
#include "model/arch/hybrids/lfm.h"

namespace ballast::model {

namespace lfm2 {
namespace {

constexpr std::array<TensorNames, 3> kAttentionNames{{
    {Role::kQueryNorm, "model.layers.{}.self_attn.q_layernorm", "blk.{}.attn_q_norm"},
    {Role::kKeyNorm, "model.layers.{}.self_attn.k_layernorm", "blk.{}.attn_k_norm"},
    {Role::kAttentionOutput, "model.layers.{}.self_attn.out_proj", "blk.{}.attn_output"},
}};
constexpr auto kNames = joined_names(kLfmNames, kAttentionNames);

constexpr std::array<TensorNames, 6> kExpertNames{{
    {Role::kRouter, "model.layers.{}.feed_forward.gate", "blk.{}.ffn_gate_inp"},
    {Role::kRouterCorrection, "model.layers.{}.feed_forward.expert_bias", "blk.{}.exp_probs_b.bias"},
    {Role::kExpertGate, "model.layers.{}.feed_forward.experts.{}.w1", "blk.{}.ffn_gate_exps"},
    {Role::kExpertUp, "model.layers.{}.feed_forward.experts.{}.w3", "blk.{}.ffn_up_exps"},
    {Role::kExpertDown, "model.layers.{}.feed_forward.experts.{}.w2", "blk.{}.ffn_down_exps"},
    {Role::kExpertDown, "model.layers.{}.feed_forward.experts.down_proj", ""},
}};
constexpr auto kMixtureNames = joined_names(kNames, kExpertNames);
constexpr std::array<FusedTensor, 2> kMixtureFused{{
    kFusedLfm[0],
    {"model.layers.{}.feed_forward.experts.gate_up_proj", "", kGateAndUp, FusedTensor::Runs::kOne},
}};

/// Returns two thirds of the field's value, rounded up to a multiple, unless that is switched off.
std::size_t read_mlp_size(const files::JsonReader& config) {
  const std::size_t size = config.size(config.has("block_ff_dim") ? "block_ff_dim" : "intermediate_size");
  if (!config.flag("block_auto_adjust_ff_dim", true)) return size;
  const std::size_t part = 2 * size / 3;
  if (config.json().contains("block_ffn_dim_multiplier") && !config.has("block_ffn_dim_multiplier")) return part;
  const auto scaled =
      static_cast<std::size_t>(config.positive("block_ffn_dim_multiplier", 1.0) * static_cast<double>(part));
  const std::size_t multiple = config.size("block_multiple_of", 256);
  return (scaled + multiple - 1) / multiple * multiple;
}

std::vector<bool> attending_layers(const files::JsonReader& config, std::size_t layers) {
  if (config.has("layer_types")) {
    return read_layers_of_type(config, layers, "full_attention", {"full_attention", "conv"});
  }
  std::vector<bool> attending(layers, true);
  if (!config.has("full_attn_idxs")) return attending;
  const std::vector<std::size_t> indices = config.at("full_attn_idxs").integers<std::size_t>();
  for (std::size_t layer = 0; layer < layers; ++layer) {
    attending[layer] = std::ranges::find(indices, layer) != indices.end();
  }
  return attending;
}

/// Describes a model with MLPs of the configured size.
ModelSpec describe_common(const files::JsonReader& config) {
  constexpr std::size_t kWidth = 3;
  DecoderConfig decoder = read_llama_line(
      config, {.context = 128000, .tied_embeddings = true, .heads = {.kv_heads = 8}, .rope = {.theta = 1e6}});
  decoder.spec.tied_embeddings = config.flag("tie_embedding", decoder.spec.tied_embeddings);
  decoder.spec.norm.epsilon = config.positive("norm_eps", 1e-5);
  decoder.attention.query_key_norm = HeadNormSpec{};
  const ShortConvolutionSpec convolution = read_lfm_convolution(config, kWidth, decoder.spec);
  ModelSpec spec = decoder.finish();
  const std::vector<bool> attending = attending_layers(config, decoder.layers);
  for (std::size_t layer = 0; layer < decoder.layers; ++layer) {
    if (!attending[layer]) spec.layers[layer].mixer = convolution;
  }
  return spec;
}

ModelSpec describe_dense(const files::JsonReader& config) {
  ModelSpec spec = describe_common(config);
  const std::size_t size = read_mlp_size(config);
  for (LayerSpec& layer : spec.layers) layer.mlp.size = size;
  return spec;
}

ModelSpec describe_mixture(const files::JsonReader& config) {
  constexpr std::size_t kDenseLayers = 2;
  if (!config.has("layer_types")) config.fail("layer_types", "missing");
  ModelSpec spec = describe_common(config);
  ExpertSpec experts = read_experts(config, "num_experts", "moe_intermediate_size");
  experts.scoring = ExpertSpec::Scoring::kSigmoid;
  experts.correction_bias = config.flag("use_expert_bias", true);
  experts.normalize = config.flag("norm_topk_prob", true);
  experts.sum_offset = 1e-6;
  experts.scale = config.number("routed_scaling_factor", 1.0);
  for (std::size_t layer = config.count("num_dense_layers", kDenseLayers); layer < spec.layers.size(); ++layer) {
    spec.layers[layer].mlp.experts = experts;
  }
  return spec;
}

// Converts a GGUF's metadata. Layers without key and value heads are convolutions.
nlohmann::json common_from_gguf(const files::GgufFile& file, std::string_view architecture, bool experts) {
  nlohmann::json config = llama_line_from_gguf(file, architecture, {.experts = experts});
  const GgufMetadata metadata(file, architecture);
  nlohmann::json types = nlohmann::json::array();
  for (const std::size_t heads : metadata.at("attention.head_count_kv").integers<std::size_t>()) {
    types.push_back(heads == 0 ? "conv" : "full_attention");
  }
  config["layer_types"] = types;
  config["conv_L_cache"] = metadata.size("shortconv.l_cache");
  config["norm_eps"] = config["rms_norm_eps"];
  return config;
}

nlohmann::json dense_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = common_from_gguf(file, "lfm2", false);
  config["architectures"] = {"Lfm2ForCausalLM"};
  config["block_auto_adjust_ff_dim"] = false;
  return config;
}

nlohmann::json mixture_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = common_from_gguf(file, "lfm2moe", true);
  const GgufMetadata metadata(file, "lfm2moe");
  config["model_type"] = kLfm2Moe.model_type;
  config["architectures"] = {"Lfm2MoeForCausalLM"};
  config["num_experts"] = metadata.size("expert_count");
  config["num_experts_per_tok"] = metadata.size("expert_used_count");
  config["moe_intermediate_size"] = metadata.size("expert_feed_forward_length");
  config["num_dense_layers"] = metadata.count("leading_dense_block_count", 0);
  return config;
}

}  // namespace
}  // namespace lfm2

ShortConvolutionSpec read_lfm_convolution(const files::JsonReader& config, std::size_t default_width, ModelSpec& spec) {
  const bool bias = config.flag("conv_bias", false);
  spec.biases.mixer_input = spec.biases.mixer_output = bias;
  return {.channels = spec.hidden_size, .width = config.size("conv_L_cache", default_width), .bias = bias};
}

constinit const Architecture kLfm2 = {
    .model_type = "lfm2",
    .gguf_architecture = "lfm2",
    .names = lfm2::kNames,
    .fused = kFusedLfm,
    .describe = lfm2::describe_dense,
    .config_from_gguf = lfm2::dense_from_gguf,
};

constinit const Architecture kLfm2Moe = {
    .model_type = "lfm2_moe",
    .gguf_architecture = "lfm2moe",
    .names = lfm2::kMixtureNames,
    .fused = lfm2::kMixtureFused,
    .describe = lfm2::describe_mixture,
    .config_from_gguf = lfm2::mixture_from_gguf,
};

}  // namespace ballast::model
