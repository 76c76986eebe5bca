// DeepSeek-V2 and V3: latent attention, routed and shared experts, of which whole groups are left out for a token.
// GLM-4.7-Flash (glm4_moe_lite) is a V3 that says of each layer whether it has experts. GLM-4.5 to 4.7 have V3's
// experts, and the heads of the Llama line, of which half a head rotates.
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/rope_config.h"

namespace ballast::model {

namespace {

constexpr std::array<TensorNames, 8> kExpertNames{{
    {Role::kRouter, "model.layers.{}.mlp.gate", ""},
    {Role::kRouterCorrection, "model.layers.{}.mlp.gate.e_score_correction_bias", ""},
    {Role::kSharedGate, "model.layers.{}.mlp.shared_experts.gate_proj", ""},
    {Role::kSharedUp, "model.layers.{}.mlp.shared_experts.up_proj", ""},
    {Role::kSharedDown, "model.layers.{}.mlp.shared_experts.down_proj", ""},
    {Role::kExpertGate, "model.layers.{}.mlp.experts.{}.gate_proj", ""},
    {Role::kExpertUp, "model.layers.{}.mlp.experts.{}.up_proj", ""},
    {Role::kExpertDown, "model.layers.{}.mlp.experts.{}.down_proj", ""},
}};

constexpr std::array<TensorNames, 18> kLatentNames{{
    {Role::kEmbedding, "model.embed_tokens", ""},
    {Role::kFinalNorm, "model.norm", ""},
    {Role::kHead, "lm_head", ""},
    {Role::kAttentionNorm, "model.layers.{}.input_layernorm", ""},
    {Role::kQueryDown, "model.layers.{}.self_attn.q_a_proj", ""},
    {Role::kQueryDownNorm, "model.layers.{}.self_attn.q_a_layernorm", ""},
    {Role::kQuery, "model.layers.{}.self_attn.q_b_proj", ""},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj", ""},
    {Role::kKeyValueDown, "model.layers.{}.self_attn.kv_a_proj", ""},
    {Role::kKeyValueDownNorm, "model.layers.{}.self_attn.kv_a_layernorm", ""},
    {Role::kKeyPosition, "model.layers.{}.self_attn.k_rope_proj", ""},
    {Role::kKey, "model.layers.{}.self_attn.k_b_proj", ""},
    {Role::kValue, "model.layers.{}.self_attn.v_b_proj", ""},
    {Role::kAttentionOutput, "model.layers.{}.self_attn.o_proj", ""},
    {Role::kMlpNorm, "model.layers.{}.post_attention_layernorm", ""},
    {Role::kGate, "model.layers.{}.mlp.gate_proj", ""},
    {Role::kUp, "model.layers.{}.mlp.up_proj", ""},
    {Role::kDown, "model.layers.{}.mlp.down_proj", ""},
}};

constexpr auto kNames = joined_names(kLatentNames, kExpertNames);
constexpr auto kGlmNames = joined_names(kLlamaNames, kExpertNames);

constexpr std::array kDownParts = {Role::kKeyValueDown, Role::kKeyPosition};
constexpr std::array kUpParts = {Role::kKey, Role::kValue};
constexpr std::array<FusedTensor, 2> kFused{{
    {"model.layers.{}.self_attn.kv_a_proj_with_mqa", "", kDownParts, FusedTensor::Runs::kOne},
    {"model.layers.{}.self_attn.kv_b_proj", "", kUpParts, FusedTensor::Runs::kHeads},
}};

// The norms of the latent vectors have this whatever rms_norm_eps says (as transformers and DeepSeek's own code).
constexpr double kLatentEpsilon = 1e-6;

// All but the experts.
ModelSpec describe_dense(const files::JsonReader& config, double epsilon = 1e-6) {
  DecoderConfig decoder = read_sizes(config);
  ModelSpec& spec = decoder.spec;
  spec.norm.epsilon = config.positive("rms_norm_eps", epsilon);
  decoder.mlp.activation = read_activation(config, "hidden_act", "silu");

  LatentAttentionSpec latent;
  AttentionSpec& attention = latent.attention;
  attention.heads = config.size("num_attention_heads");
  if (config.size("num_key_value_heads", attention.heads) != attention.heads) {
    config.fail("num_key_value_heads", "must be num_attention_heads: latent attention has a key for every head");
  }
  attention.kv_heads = attention.heads;
  const std::size_t rotated = config.size("qk_rope_head_dim");
  attention.head_size = config.size("qk_nope_head_dim") + rotated;
  attention.value_size = config.size("v_head_dim");
  attention.rope = read_rope(config, rotated);
  const double factor = yarn_attention_factor(config);
  attention.scale = factor * factor / std::sqrt(static_cast<double>(attention.head_size));
  latent.query_rank = config.count("q_lora_rank", 0);
  latent.key_value_rank = config.size("kv_lora_rank");
  latent.epsilon = kLatentEpsilon;
  spec.biases.latent = spec.biases.attention_output = config.flag("attention_bias", false);
  spec.biases.up = spec.biases.down = config.flag("mlp_bias", false);
  if (!config.flag("rope_interleave", true)) config.fail("rope_interleave", "false is not supported");
  spec.layers.assign(decoder.layers, {.mixer = latent, .mlp = decoder.mlp});
  return spec;
}

void check_method(const files::JsonReader& config, std::string_view field, std::string_view only) {
  const std::string value = config.text(field, only);
  if (value != only) config.fail(field, "'" + value + "' is not supported; supported: " + std::string(only));
}

// What V2 and V3 have in common. Their configuration classes differ in their defaults, so nothing has one here.
ExpertSpec describe_experts(const files::JsonReader& config, bool grouped) {
  ExpertSpec experts = read_experts(config, "n_routed_experts", "moe_intermediate_size");
  experts.shared_size = experts.size * config.count("n_shared_experts");
  experts.scale = config.number("routed_scaling_factor");
  if (grouped) {
    experts.groups = config.size("n_group");
    experts.groups_per_token = config.size("topk_group");
  }
  if (config.has("moe_layer_freq") && config.size("moe_layer_freq") != 1) {
    config.fail("moe_layer_freq", "must be 1, is " + std::to_string(config.size("moe_layer_freq")));
  }
  return experts;
}

// Which layers have experts.
std::vector<bool> read_sparse_layers(const files::JsonReader& config, std::size_t layers) {
  std::vector<bool> sparse(layers);
  if (!config.has("mlp_layer_types")) {
    const std::size_t first = config.count("first_k_dense_replace");
    for (std::size_t layer = first; layer < layers; ++layer) sparse[layer] = true;
    return sparse;
  }
  const std::vector<files::JsonReader> types = config.at("mlp_layer_types").elements();
  if (types.size() != layers) {
    config.fail("mlp_layer_types",
                "has " + std::to_string(types.size()) + " entries for " + std::to_string(layers) + " layers");
  }
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::string type = types[layer].string();
    if (type != "sparse" && type != "dense") {
      types[layer].fail("'" + type + "' is not supported; supported: dense, sparse");
    }
    sparse[layer] = type == "sparse";
  }
  return sparse;
}

void set_experts(const files::JsonReader& config, const ExpertSpec& experts, ModelSpec& spec) {
  const std::vector<bool> sparse = read_sparse_layers(config, spec.layers.size());
  for (std::size_t layer = 0; layer < sparse.size(); ++layer) {
    if (sparse[layer]) spec.layers[layer].mlp.experts = experts;
  }
}

ModelSpec describe_v2(const files::JsonReader& config) {
  ModelSpec spec = describe_dense(config);
  const std::string method = config.text("topk_method", "greedy");
  if (method != "greedy" && method != "group_limited_greedy") {
    config.fail("topk_method", "'" + method + "' is not supported; supported: greedy, group_limited_greedy");
  }
  check_method(config, "scoring_func", "softmax");
  // DeepSeek's code and transformers disagree on what it would mean.
  if (config.flag("norm_topk_prob", false)) config.fail("norm_topk_prob", "true is not supported");
  const ExpertSpec experts = describe_experts(config, method == "group_limited_greedy");
  check_expert_groups(config, experts);
  set_experts(config, experts, spec);
  return spec;
}

// V3's experts for the layers that have some.
void set_sigmoid_experts(const files::JsonReader& config, ModelSpec& spec) {
  check_method(config, "scoring_func", "sigmoid");
  check_method(config, "topk_method", "noaux_tc");
  ExpertSpec experts = describe_experts(config, true);
  experts.scoring = ExpertSpec::Scoring::kSigmoid;
  experts.group_score = ExpertSpec::GroupScore::kTopTwoSum;
  experts.correction_bias = true;
  experts.normalize = config.flag("norm_topk_prob", true);
  check_expert_groups(config, experts);
  set_experts(config, experts, spec);
}

ModelSpec describe_v3(const files::JsonReader& config) {
  ModelSpec spec = describe_dense(config);
  set_sigmoid_experts(config, spec);
  return spec;
}

ModelSpec describe_glm4_lite(const files::JsonReader& config) {
  ModelSpec spec = describe_dense(config, 1e-5);
  set_sigmoid_experts(config, spec);
  return spec;
}

ModelSpec describe_glm4(const files::JsonReader& config) {
  DecoderConfig decoder =
      read_llama_line(config, {.context = 131072, .epsilon = 1e-5, .heads = {.kv_heads = 8}, .rope = {.partial = 0.5}});
  decoder.attention.query_key_norm = config.flag("use_qk_norm", false);
  BiasSpec& biases = decoder.spec.biases;
  biases.query = biases.key = biases.value = config.flag("attention_bias", false);
  ModelSpec spec = decoder.finish();
  set_sigmoid_experts(config, spec);
  return spec;
}

}  // namespace

constinit const Architecture kDeepseekV2 = {
    .model_type = "deepseek_v2",
    .names = kNames,
    .fused = kFused,
    .describe = describe_v2,
    .huggingface_interleaves_rope = true,
};

constinit const Architecture kDeepseekV3 = {
    .model_type = "deepseek_v3",
    .names = kNames,
    .fused = kFused,
    .describe = describe_v3,
    .huggingface_interleaves_rope = true,
};

constinit const Architecture kGlm4MoeLite = {
    .model_type = "glm4_moe_lite",
    .names = kNames,
    .fused = kFused,
    .describe = describe_glm4_lite,
    .huggingface_interleaves_rope = true,
};

constinit const Architecture kGlm4Moe = {
    .model_type = "glm4_moe",
    .names = kGlmNames,
    .describe = describe_glm4,
};

}  // namespace ballast::model
