// DeepSeek-V2 and V3: latent attention, routed and shared experts, of which whole groups are excluded for a token.
// Mistral 4: the same attention, with queries that grow with their position, and experts by a softmax. GLM-4.5 to 4.7
// have V3's experts, and the heads of the Llama line, half of which rotates; dots.llm1 has them with norms over heads,
// and Solar Open, too.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/mixtures/latent.h"
#include "model/arch/mixtures/shared_experts.h"
#include "model/arch/rope_config.h"

namespace ballast::model {

namespace deepseek {
namespace {

constexpr auto kPlainNames = joined_names(kLlamaNames, kSharedExpertNames);
constexpr std::array<TensorNames, 1> kGgufMlpNorm{{{Role::kMlpNorm, "", "blk.{}.post_attention_norm"}}};
constexpr auto kGlm4Names = joined_names(kPlainNames, kGgufMlpNorm, kDeepseekDraftNames);
constexpr auto kDraftedNames = joined_names(kLatentMixtureNames, kDeepseekDraftNames);

// The epsilon of the latent vectors' norms, independent of rms_norm_eps (as in transformers and DeepSeek's own code).
constexpr double kLatentEpsilon = 1e-6;

struct LatentFamily {
  std::size_t context = 2048;  // default of the configuration class
  double epsilon = 1e-6;       // default of the configuration class
  bool rope_of_heads = false;  // the rotation's settings refer to whole heads, of which a part rotates
};

RopeSpec read_latent_rope(const files::JsonReader& config, const AttentionSpec& attention, std::size_t rotated,
                          const LatentFamily& family) {
  if (!family.rope_of_heads) return read_rope(config, rotated);
  const double part = static_cast<double>(rotated) / static_cast<double>(attention.head_size);
  RopeSpec rope = read_rope(config, attention.head_size, {.partial = part});
  if (rope.rotary_size != rotated) {
    config.fail("qk_rope_head_dim", "is " + std::to_string(rotated) + ", but partial_rotary_factor makes " +
                                        std::to_string(rope.rotary_size) + " channels of a head rotate");
  }
  return rope;
}

// Describes everything but the experts.
ModelSpec describe_dense(const files::JsonReader& config, const LatentFamily& family = {}) {
  DecoderConfig decoder = read_sizes(config, family.context);
  ModelSpec& spec = decoder.spec;
  spec.norm.epsilon = config.positive("rms_norm_eps", family.epsilon);
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
  attention.rope = read_latent_rope(config, attention, rotated, family);
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

// Reads the common part of V2, V3 and GLM. Their configuration classes differ in their defaults, so every field must
// exist.
ExpertSpec describe_experts(const files::JsonReader& config) {
  if (config.has("moe_layer_freq") && config.size("moe_layer_freq") != 1) {
    config.fail("moe_layer_freq", "must be 1, is " + std::to_string(config.size("moe_layer_freq")));
  }
  return read_shared_experts(config);
}

ModelSpec describe_v2(const files::JsonReader& config) {
  ModelSpec spec = describe_dense(config);
  const std::string method = config.text("topk_method", "greedy");
  if (method != "greedy" && method != "group_limited_greedy") {
    config.fail("topk_method", "'" + method + "' is not supported; supported: greedy, group_limited_greedy");
  }
  check_method(config, "scoring_func", "softmax");
  // DeepSeek's code and transformers disagree about its meaning.
  if (config.flag("norm_topk_prob", false)) config.fail("norm_topk_prob", "true is not supported");
  ExpertSpec experts = describe_experts(config);
  if (method == "group_limited_greedy") read_expert_groups(config, {}, experts);
  set_experts_from(config.count("first_k_dense_replace"), experts, spec);
  return spec;
}

// Gives V3's experts to the layers that have experts.
void set_sigmoid_experts(const files::JsonReader& config, ModelSpec& spec) {
  check_method(config, "scoring_func", "sigmoid");
  check_method(config, "topk_method", "noaux_tc");
  ExpertSpec experts = describe_experts(config);
  score_by_sigmoid(experts);
  experts.normalize = config.flag("norm_topk_prob", true);
  read_expert_groups(config, {}, experts);
  if (set_experts_by_type(config, experts, spec)) return;
  set_experts_from(config.count("first_k_dense_replace"), experts, spec);
}

ModelSpec describe_v3(const files::JsonReader& config) {
  ModelSpec spec = describe_dense(config);
  set_sigmoid_experts(config, spec);
  return spec;
}

ModelSpec describe_glm4_lite(const files::JsonReader& config) {
  ModelSpec spec = describe_dense(config, {.epsilon = 1e-5});
  set_sigmoid_experts(config, spec);
  return spec;
}

ModelSpec describe_glm4(const files::JsonReader& config) {
  DecoderConfig decoder =
      read_llama_line(config, {.context = 131072, .epsilon = 1e-5, .heads = {.kv_heads = 8}, .rope = {.partial = 0.5}});
  if (config.flag("use_qk_norm", false)) decoder.attention.query_key_norm = HeadNormSpec{};
  BiasSpec& biases = decoder.spec.biases;
  biases.query = biases.key = biases.value = config.flag("attention_bias", false);
  ModelSpec spec = decoder.finish();
  set_sigmoid_experts(config, spec);
  return spec;
}

// Reads experts with the defaults that dots.llm1 and Solar Open have in common.
ExpertSpec describe_plain_experts(const files::JsonReader& config, bool normalize, SharedExpertFields fields = {}) {
  fields.scale_by_default = 1.0;
  ExpertSpec experts = read_shared_experts(config, fields);
  score_by_sigmoid(experts);
  experts.normalize = config.flag("norm_topk_prob", normalize);
  read_expert_groups(config, 1, experts);
  return experts;
}

ModelSpec describe_dots1(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(config, {.heads = {.kv_heads = 32}});
  decoder.attention.query_key_norm = HeadNormSpec{};
  read_attention_biases(config, decoder.spec.biases);
  ModelSpec spec = decoder.finish();
  set_experts_from(config.count("first_k_dense_replace", 0), describe_plain_experts(config, false), spec);
  const bool no_window = config.json().contains("sliding_window") && !config.has("sliding_window");
  if (config.has("layer_types")) {
    if (no_window) check_layer_types(config, decoder.layers, {"full_attention"});
    set_windows(spec, read_windows(config, decoder.layers));
  } else if (!no_window) {
    std::vector<std::size_t> windows(decoder.layers, config.size("sliding_window", 4096));
    std::fill_n(windows.begin(), std::min(windows.size(), config.count("max_window_layers", 62)), 0);
    set_windows(spec, windows);
  }
  return spec;
}

ModelSpec describe_solar_open(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(
      config, {.context = 131072, .epsilon = 1e-5, .heads = {.kv_heads = 8, .head_size = 128}, .rope = {.theta = 1e6}});
  BiasSpec& biases = decoder.spec.biases;
  biases.query = biases.key = biases.value = config.flag("attention_bias", false);
  ModelSpec spec = decoder.finish();
  set_experts_from(0, describe_plain_experts(config, true, {.shared_by_default = 1}), spec);
  return spec;
}

}  // namespace
}  // namespace deepseek

ModelSpec describe_mistral4(const files::JsonReader& config) {
  // By default the configuration class stretches the rotation, unlike every other one.
  if (!config.has("rope_parameters")) config.fail("rope_parameters", "missing");
  const files::JsonReader rope = config.object("rope_parameters");
  ModelSpec spec = deepseek::describe_dense(config, {.context = 1048576, .rope_of_heads = true});
  const QueryGrowthSpec growth = {.slope = rope.number("llama_4_scaling_beta"),
                                  .length = rope.positive("original_max_position_embeddings")};
  for_each_attention(spec, [&](AttentionSpec& attention) { attention.query_growth = growth; });
  ExpertSpec experts = read_shared_experts(config, {.shared_by_default = 1, .scale_by_default = 1.0});
  experts.group_score = ExpertSpec::GroupScore::kTopTwoSum;
  experts.normalize = config.flag("norm_topk_prob", true);
  read_expert_groups(config, 1, experts);
  set_experts_from(config.count("first_k_dense_replace", 0), experts, spec);
  return spec;
}

constinit const Architecture kDeepseekV2 = {
    .model_type = "deepseek_v2",
    .gguf_architecture = "deepseek2",
    .names = kLatentMixtureNames,
    .fused = kFusedLatent,
    .describe = deepseek::describe_v2,
    .config_from_gguf = deepseek_from_gguf,
    .huggingface_interleaves_rope = true,
    .gguf_interleaves_rope = true,
};

constinit const Architecture kDeepseekV3 = {
    .model_type = "deepseek_v3",
    .names = deepseek::kDraftedNames,
    .fused = kFusedLatent,
    .describe = deepseek::describe_v3,
    .huggingface_interleaves_rope = true,
    .gguf_interleaves_rope = true,
};

constinit const Architecture kMistral4 = {
    .model_type = "mistral4",
    .names = kLatentMixtureNames,
    .fused = kFusedLatentMixture,
    .describe = describe_mistral4,
    .huggingface_interleaves_rope = true,
};

constinit const Architecture kGlm4MoeLite = {
    .model_type = "glm4_moe_lite",
    .names = deepseek::kDraftedNames,
    .fused = kFusedLatent,
    .describe = deepseek::describe_glm4_lite,
    .huggingface_interleaves_rope = true,
};

constinit const Architecture kGlm4Moe = {
    .model_type = "glm4_moe",
    .gguf_architecture = "glm4moe",
    .names = deepseek::kGlm4Names,
    .describe = deepseek::describe_glm4,
    .config_from_gguf = glm4_moe_from_gguf,
};

constinit const Architecture kDots1 = {
    .model_type = "dots1",
    .names = deepseek::kPlainNames,
    .fused = kFusedExperts,
    .describe = deepseek::describe_dots1,
};

constinit const Architecture kSolarOpen = {
    .model_type = "solar_open",
    .names = deepseek::kPlainNames,
    .fused = kFusedExperts,
    .describe = deepseek::describe_solar_open,
};

}  // namespace ballast::model
