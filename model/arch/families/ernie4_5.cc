// ERNIE 4.5: Llama with interleaved RoPE, one flag for all biases. Its mixtures choose experts by corrected softmax.
#include <array>
#include <cstddef>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/gguf_config.h"
#include "model/arch/mixtures/shared_experts.h"

namespace ballast::model {

namespace ernie4_5 {
namespace {

constexpr LlamaLineDefaults kDefaults = {.context = 131072,
                                         .tied_embeddings = true,
                                         .epsilon = 1e-5,
                                         .heads = {.kv_heads = 2, .head_size = 128},
                                         .rope = {.theta = 500000.0}};

constexpr std::array<TensorNames, 2> kCorrections{{
    {Role::kRouterCorrection, "model.layers.{}.mlp.moe_statics.e_score_correction_bias", ""},
    {Role::kRouterCorrection, "model.layers.{}.mlp.gate.moe_statics.e_score_correction_bias", ""},
}};
constexpr auto kMixtureNames = joined_names(kLlamaNames, kCorrections, kSharedExpertNames);

ModelSpec describe_dense(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(config, kDefaults);
  const bool bias = config.flag("use_bias", false);
  decoder.spec.biases = {.query = bias, .key = bias, .value = bias, .attention_output = bias, .up = bias, .down = bias};
  return decoder.finish();
}

ModelSpec describe_mixture(const files::JsonReader& config) {
  constexpr std::size_t kSharedByDefault = 2;
  // With this flag the head and the dense MLPs would have biases, but experts would not.
  if (config.flag("use_bias", false)) config.fail("use_bias", "true is not supported");
  LlamaLineDefaults defaults = kDefaults;
  defaults.heads = {.kv_heads = 4};
  ModelSpec spec = read_llama_line(config, defaults).finish();
  ExpertSpec experts = read_experts(config, "moe_num_experts", "moe_intermediate_size", "moe_k");
  experts.shared_size = experts.size * config.count("moe_num_shared_experts", kSharedByDefault);
  experts.correction_bias = true;
  experts.normalize = true;
  experts.sum_offset = 0;
  experts.least_sum = config.positive("moe_norm_min", 1e-12);
  const std::size_t interval = config.size("moe_layer_interval", 1);
  const double last = config.number("moe_layer_end_index", -1);
  for (std::size_t layer = config.count("moe_layer_start_index", 1); layer < spec.layers.size(); ++layer) {
    const bool inside = last == -1 || static_cast<double>(layer) <= last;
    if (inside && (layer + 1) % interval == 0) spec.layers[layer].mlp.experts = experts;
  }
  return spec;
}

nlohmann::json dense_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, "ernie4_5");
  config["architectures"] = {"Ernie4_5ForCausalLM"};
  config["use_bias"] = file.contains("blk.0.attn_q.bias");
  return config;
}

}  // namespace
}  // namespace ernie4_5

constinit const Architecture kErnie45 = {
    .model_type = "ernie4_5",
    .gguf_architecture = "ernie4_5",
    .names = kLlamaNames,
    .describe = ernie4_5::describe_dense,
    .config_from_gguf = ernie4_5::dense_from_gguf,
    .huggingface_interleaves_rope = true,
    .gguf_interleaves_rope = true,
};

constinit const Architecture kErnie45Moe = {
    .model_type = "ernie4_5_moe",
    .names = ernie4_5::kMixtureNames,
    .fused = kFusedExperts,
    .describe = ernie4_5::describe_mixture,
    .huggingface_interleaves_rope = true,
};

}  // namespace ballast::model
