// Qwen2 and Qwen2.5: Llama with biases on queries, keys and values; a few channels of the keys' bias are huge. MiMo is
// Qwen2 with a draft head.
#include <array>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/gguf_config.h"
#include "model/arch/gguf_fields.h"

namespace ballast::model {

namespace qwen2 {
namespace {

ModelSpec describe(const files::JsonReader& config) {
  ModelSpec spec = read_llama_line(config).finish();
  spec.biases.query = spec.biases.key = spec.biases.value = true;
  if (config.flag("use_sliding_window", false)) set_windows(spec, read_windows_above(config, spec.layers.size()));
  return spec;
}

ModelSpec describe_mimo(const files::JsonReader& config) {
  ModelSpec spec = describe(config);
  spec.draft_reads_hidden_first = true;
  return spec;
}

constexpr std::string_view kMimoDraftBlock = "model.mtp_layers.0";
constexpr std::array<TensorNames, 6> kMimoDraftNames{{
    {Role::kDraftEmbeddingNorm, "model.mtp_layers.0.token_layernorm", ""},
    {Role::kDraftModelNorm, "model.mtp_layers.0.model_norm", ""},
    {Role::kDraftModelNorm, "model.norm", ""},
    {Role::kDraftHiddenNorm, "model.mtp_layers.0.hidden_layernorm", ""},
    {Role::kDraftProjection, "model.mtp_layers.0.input_proj", ""},
    {Role::kDraftNorm, "model.mtp_layers.0.final_layernorm", ""},
}};
constexpr auto kMimoNames = joined_names(kLlamaNames, kMimoDraftNames);

nlohmann::json config_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, "qwen2");
  config["architectures"] = {"Qwen2ForCausalLM"};
  return config;
}

}  // namespace
}  // namespace qwen2

constinit const Architecture kQwen2 = {
    .model_type = "qwen2",
    .gguf_architecture = "qwen2",
    .names = kLlamaNames,
    .describe = qwen2::describe,
    .config_from_gguf = qwen2::config_from_gguf,
    .gguf_fields =
        [](const ModelSpec& spec) {
          return llama_line_to_gguf(spec, {.architecture = "qwen2", .wide_attention = false});
        },
};

constinit const Architecture kMimo = {
    .model_type = "mimo",
    .names = qwen2::kMimoNames,
    .describe = qwen2::describe_mimo,
    .draft_block = qwen2::kMimoDraftBlock,
};

}  // namespace ballast::model
