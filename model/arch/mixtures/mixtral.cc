// Mixtral: Mistral with experts in place of every MLP. MiniMax-M2: with norms over all queries and keys, and
// DeepSeek-V3's scores.
#include <array>
#include <string>
#include <vector>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/gguf_fields.h"
#include "model/arch/mixtures/shared_experts.h"

namespace ballast::model {

namespace mixtral {
namespace {

// Published checkpoints have block_sparse_moe in their names; transformers 5 has the experts of a layer in one tensor.
constexpr std::array<TensorNames, 6> kExpertNames{{
    {Role::kRouter, "model.layers.{}.block_sparse_moe.gate", "blk.{}.ffn_gate_inp"},
    {Role::kRouter, "model.layers.{}.mlp.gate", ""},
    {Role::kExpertGate, "model.layers.{}.block_sparse_moe.experts.{}.w1", "blk.{}.ffn_gate_exps"},
    {Role::kExpertUp, "model.layers.{}.block_sparse_moe.experts.{}.w3", "blk.{}.ffn_up_exps"},
    {Role::kExpertDown, "model.layers.{}.block_sparse_moe.experts.{}.w2", "blk.{}.ffn_down_exps"},
    {Role::kExpertDown, "model.layers.{}.mlp.experts.down_proj", ""},
}};
constexpr auto kNames = joined_names(kLlamaNames, kExpertNames);
constexpr std::array<TensorNames, 2> kCorrections{{
    {Role::kRouterCorrection, "model.layers.{}.block_sparse_moe.e_score_correction_bias", ""},
    {Role::kRouterCorrection, "model.layers.{}.mlp.e_score_correction_bias", ""},
}};
constexpr auto kMiniMaxNames = joined_names(kNames, kCorrections);

ModelSpec describe_mixtral(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(config, {.epsilon = 1e-5});
  ModelSpec spec = decoder.finish();
  ExpertSpec experts = read_experts(config, "num_local_experts", "intermediate_size");
  experts.normalize = true;
  for (LayerSpec& layer : spec.layers) layer.mlp.experts = experts;
  // Unlike Mistral's, its configuration class has no window by default.
  if (config.has("sliding_window")) set_windows(spec, read_windows(config, decoder.layers));
  return spec;
}

ModelSpec describe_minimax_m2(const files::JsonReader& config) {
  // transformers supports no other values of these fields.
  if (config.count("shared_intermediate_size", 0) != 0) config.fail("shared_intermediate_size", "is not supported");
  const std::string scoring = config.text("scoring_func", "sigmoid");
  if (scoring != "sigmoid") config.fail("scoring_func", "'" + scoring + "' is not supported; supported: sigmoid");
  if (!config.flag("use_routing_bias", true)) config.fail("use_routing_bias", "false is not supported");
  DecoderConfig decoder =
      read_llama_line(config, {.context = 196608, .heads = {.kv_heads = 8, .head_size = 128}, .rope = {.theta = 5e6}});
  AttentionSpec& attention = decoder.attention;
  attention.query_key_norm = HeadNormSpec{.kind = HeadNormSpec::Kind::kRmsAllHeads};
  if (config.has("rotary_dim")) {
    const double partial = static_cast<double>(config.size("rotary_dim")) / static_cast<double>(attention.head_size);
    attention.rope = read_rope(config, attention.head_size, {.partial = partial, .theta = 5e6});
  }
  ModelSpec spec = decoder.finish();
  ExpertSpec experts = read_experts(config, "num_local_experts", "intermediate_size");
  score_by_sigmoid(experts);
  set_experts_from(0, experts, spec);
  return spec;
}

std::vector<files::GgufField> mixtral_to_gguf(const ModelSpec& spec) {
  GgufLine line = kLlamaGguf;
  line.experts = gguf_experts(spec, {.normalize = true});
  return llama_line_to_gguf(spec, line);
}

}  // namespace
}  // namespace mixtral

constinit const Architecture kMixtral = {
    .model_type = "mixtral",
    .gguf_architecture = "llama",
    .names = mixtral::kNames,
    .fused = kFusedExperts,
    .describe = mixtral::describe_mixtral,
    .gguf_fields = mixtral::mixtral_to_gguf,
    .gguf_interleaves_rope = true,
};

constinit const Architecture kMiniMaxM2 = {
    .model_type = "minimax_m2",
    .names = mixtral::kMiniMaxNames,
    .fused = kFusedExperts,
    .describe = mixtral::describe_minimax_m2,
};

}  // namespace ballast::model
