// LFM2: gated short convolutions, and in some layers attention with norms over heads; with experts in all but the first
// layers, or without.
#include <algorithm>
#include <array>
#include <vector>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace {

constexpr std::array<TensorNames, 19> kNames{{
    {Role::kEmbedding, "model.embed_tokens", ""},
    {Role::kFinalNorm, "model.embedding_norm", ""},
    {Role::kHead, "lm_head", ""},
    {Role::kAttentionNorm, "model.layers.{}.operator_norm", ""},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj", ""},
    {Role::kKey, "model.layers.{}.self_attn.k_proj", ""},
    {Role::kValue, "model.layers.{}.self_attn.v_proj", ""},
    {Role::kQueryNorm, "model.layers.{}.self_attn.q_layernorm", ""},
    {Role::kKeyNorm, "model.layers.{}.self_attn.k_layernorm", ""},
    {Role::kAttentionOutput, "model.layers.{}.self_attn.out_proj", ""},
    {Role::kConvolutionInputGate, "model.layers.{}.conv.b_proj", ""},
    {Role::kConvolutionOutputGate, "model.layers.{}.conv.c_proj", ""},
    {Role::kConvolutionInput, "model.layers.{}.conv.x_proj", ""},
    {Role::kConvolutionTaps, "model.layers.{}.conv.conv.weight", ""},
    {Role::kConvolutionOutput, "model.layers.{}.conv.out_proj", ""},
    {Role::kMlpNorm, "model.layers.{}.ffn_norm", ""},
    {Role::kGate, "model.layers.{}.feed_forward.w1", ""},
    {Role::kUp, "model.layers.{}.feed_forward.w3", ""},
    {Role::kDown, "model.layers.{}.feed_forward.w2", ""},
}};
constexpr std::array kProjections = {Role::kConvolutionInputGate, Role::kConvolutionOutputGate,
                                     Role::kConvolutionInput};
constexpr std::array<FusedTensor, 1> kFused{
    {{"model.layers.{}.conv.in_proj", "", kProjections, FusedTensor::Runs::kOne}}};

constexpr std::array<TensorNames, 6> kExpertNames{{
    {Role::kRouter, "model.layers.{}.feed_forward.gate", ""},
    {Role::kRouterCorrection, "model.layers.{}.feed_forward.expert_bias", ""},
    {Role::kExpertGate, "model.layers.{}.feed_forward.experts.{}.w1", ""},
    {Role::kExpertUp, "model.layers.{}.feed_forward.experts.{}.w3", ""},
    {Role::kExpertDown, "model.layers.{}.feed_forward.experts.{}.w2", ""},
    {Role::kExpertDown, "model.layers.{}.feed_forward.experts.down_proj", ""},
}};
constexpr auto kMixtureNames = joined_names(kNames, kExpertNames);
constexpr std::array<FusedTensor, 2> kMixtureFused{{
    kFused[0],
    {"model.layers.{}.feed_forward.experts.gate_up_proj", "", kGateAndUp, FusedTensor::Runs::kOne},
}};

/// Two thirds of what the field says, rounded up to a multiple, unless that is switched off.
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

/// With MLPs of the size that the configuration names.
ModelSpec describe_common(const files::JsonReader& config) {
  constexpr std::size_t kWidth = 3;
  DecoderConfig decoder = read_llama_line(
      config, {.context = 128000, .tied_embeddings = true, .heads = {.kv_heads = 8}, .rope = {.theta = 1e6}});
  decoder.spec.tied_embeddings = config.flag("tie_embedding", decoder.spec.tied_embeddings);
  decoder.spec.norm.epsilon = config.positive("norm_eps", 1e-5);
  decoder.attention.query_key_norm = true;
  if (config.flag("conv_bias", false)) config.fail("conv_bias", "true is not supported");
  const ShortConvolutionSpec convolution = {.channels = decoder.spec.hidden_size,
                                            .width = config.size("conv_L_cache", kWidth)};
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

}  // namespace

constinit const Architecture kLfm2 = {
    .model_type = "lfm2",
    .names = kNames,
    .fused = kFused,
    .describe = describe_dense,
};

constinit const Architecture kLfm2Moe = {
    .model_type = "lfm2_moe",
    .names = kMixtureNames,
    .fused = kMixtureFused,
    .describe = describe_mixture,
};

}  // namespace ballast::model
