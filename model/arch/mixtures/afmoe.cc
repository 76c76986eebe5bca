// Arcee's mixtures (Trinity): norms before and after both halves and over heads; gated attention, which rotates only in
// layers with a window; sigmoid scores with a correction, after a few dense layers.
#include <array>
#include <cmath>
#include <string>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/mixtures/shared_experts.h"

namespace ballast::model {

namespace afmoe {
namespace {

// Names that differ from the Llama line, in which post_attention_layernorm is another norm.
constexpr std::array<TensorNames, 19> kOwnNames{{
    {Role::kEmbedding, "model.embed_tokens", ""},
    {Role::kFinalNorm, "model.norm", ""},
    {Role::kHead, "lm_head", ""},
    {Role::kAttentionNorm, "model.layers.{}.input_layernorm", ""},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj", ""},
    {Role::kKey, "model.layers.{}.self_attn.k_proj", ""},
    {Role::kValue, "model.layers.{}.self_attn.v_proj", ""},
    {Role::kQueryNorm, "model.layers.{}.self_attn.q_norm", ""},
    {Role::kKeyNorm, "model.layers.{}.self_attn.k_norm", ""},
    {Role::kOutputGate, "model.layers.{}.self_attn.gate_proj", ""},
    {Role::kAttentionOutput, "model.layers.{}.self_attn.o_proj", ""},
    {Role::kAttentionPostNorm, "model.layers.{}.post_attention_layernorm", ""},
    {Role::kMlpNorm, "model.layers.{}.pre_mlp_layernorm", ""},
    {Role::kGate, "model.layers.{}.mlp.gate_proj", ""},
    {Role::kUp, "model.layers.{}.mlp.up_proj", ""},
    {Role::kDown, "model.layers.{}.mlp.down_proj", ""},
    {Role::kMlpPostNorm, "model.layers.{}.post_mlp_layernorm", ""},
    {Role::kRouter, "model.layers.{}.mlp.router.gate", ""},
    {Role::kRouterCorrection, "model.layers.{}.mlp.expert_bias", ""},
}};
constexpr auto kNames = joined_names(kOwnNames, kSharedExpertNames);

// Refuses values of fields that published configurations have and transformers does not read.
void check_routing(const files::JsonReader& config) {
  for (const char* field : {"n_group", "topk_group", "num_expert_groups", "num_limited_groups"}) {
    if (config.size(field, 1) != 1) config.fail(field, "must be 1");
  }
  if (!config.flag("route_norm", true)) config.fail("route_norm", "false is not supported");
  const std::string scoring = config.text("score_func", "sigmoid");
  if (scoring != "sigmoid") config.fail("score_func", "'" + scoring + "' is not supported; supported: sigmoid");
}

ModelSpec describe(const files::JsonReader& config) {
  check_routing(config);
  DecoderConfig decoder = read_llama_line(config, {.context = 16384, .epsilon = 1e-5, .heads = {.head_size = 128}});
  read_attention_biases(config, decoder.spec.biases);
  decoder.spec.post_norms = true;
  if (config.flag("mup_enabled", false)) {
    decoder.spec.embedding_scale = std::sqrt(static_cast<double>(decoder.spec.hidden_size));
  }
  decoder.attention.query_key_norm = HeadNormSpec{};
  decoder.attention.output_gate = true;
  ModelSpec spec = decoder.finish();

  ExpertSpec experts = read_shared_experts(config, {.count = "num_experts",
                                                    .shared = "num_shared_experts",
                                                    .scale = "route_scale",
                                                    .shared_by_default = 2,
                                                    .scale_by_default = 1.0});
  score_by_sigmoid(experts);
  set_experts_from(config.count("num_dense_layers", 1), experts, spec);

  const std::size_t pattern = config.size("global_attn_every_n_layers", 4);
  set_layer_types(read_sliding_layers(config, decoder.layers, pattern), read_window(config, 1024),
                  *decoder.attention.rope, {}, spec);
  return spec;
}

}  // namespace
}  // namespace afmoe

constinit const Architecture kAfmoe = {
    .model_type = "afmoe",
    .names = afmoe::kNames,
    .fused = kFusedExperts,
    .describe = afmoe::describe,
};

}  // namespace ballast::model
