// Qwen3.5 to 3.8, dense and with experts: Qwen3-Next's layers with other matrices. Checkpoints also contain parts for
// images, which text does not need.
#include <array>
#include <span>
#include <string_view>

#include "model/arch/architectures.h"
#include "model/arch/hybrids/qwen_hybrid.h"

namespace ballast::model {

namespace qwen3_5 {
namespace {

constexpr std::array kProjections = {Role::kDeltaQuery, Role::kDeltaKey, Role::kDeltaValue};
constexpr std::array<FusedTensor, 3> kFused{{
    kFusedQuery,
    kFusedExperts[0],
    {"model.layers.{}.linear_attn.in_proj_qkv", "blk.{}.attn_qkv", kProjections, FusedTensor::Runs::kOne},
}};

ModelSpec describe_dense(const files::JsonReader& config) {
  return describe_qwen_hybrid(text_config(config));
}

ModelSpec describe_mixture(const files::JsonReader& config) {
  const files::JsonReader text = text_config(config);
  ModelSpec spec = describe_qwen_hybrid(text);
  ExpertSpec experts = read_qwen_experts(text);
  experts.normalize = true;
  for (LayerSpec& layer : spec.layers) layer.mlp.experts = experts;
  return spec;
}

nlohmann::json dense_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = qwen_hybrid_from_gguf(file, "qwen35");
  config["model_type"] = kQwen35Text.model_type;
  config["architectures"] = {"Qwen3_5ForCausalLM"};
  return config;
}

nlohmann::json mixture_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = qwen_hybrid_from_gguf(file, "qwen35moe");
  config["model_type"] = kQwen35MoeText.model_type;
  config["architectures"] = {"Qwen3_5MoeForCausalLM"};
  return config;
}

using ConfigFromGguf = nlohmann::json (*)(const files::GgufFile& file);

constexpr Architecture architecture(std::string_view model_type, ModelSpec (*describe)(const files::JsonReader&),
                                    std::string_view gguf_architecture = {},
                                    ConfigFromGguf config_from_gguf = nullptr) {
  return {.model_type = model_type,
          .gguf_architecture = gguf_architecture,
          .names = kQwenHybridNames,
          .fused = kFused,
          .describe = describe,
          .config_from_gguf = config_from_gguf,
          .prefix = "model.",
          .other_prefixes = std::span(kTextPrefixes).first(1),
          .draft_block = kQwenDraftBlock,
          .gguf_tiles_value_heads = true};
}

}  // namespace
}  // namespace qwen3_5

constinit const Architecture kQwen35 = qwen3_5::architecture("qwen3_5", qwen3_5::describe_dense);
constinit const Architecture kQwen35Text =
    qwen3_5::architecture("qwen3_5_text", qwen3_5::describe_dense, "qwen35", qwen3_5::dense_from_gguf);
constinit const Architecture kQwen35Moe = qwen3_5::architecture("qwen3_5_moe", qwen3_5::describe_mixture);
constinit const Architecture kQwen35MoeText =
    qwen3_5::architecture("qwen3_5_moe_text", qwen3_5::describe_mixture, "qwen35moe", qwen3_5::mixture_from_gguf);

}  // namespace ballast::model
