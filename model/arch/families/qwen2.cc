// Qwen2 and Qwen2.5: Llama with biases on queries, keys and values; a few channels of the keys' bias are huge.
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

}  // namespace ballast::model
