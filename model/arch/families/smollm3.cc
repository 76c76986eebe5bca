// SmolLM3: Llama in which every fourth layer does not rotate queries and keys.
#include <cstddef>
#include <optional>
#include <vector>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/gguf_config.h"
#include "model/arch/gguf_fields.h"

namespace ballast::model {

namespace smollm3 {
namespace {

// Without a list of types, the layers that do not rotate have a window.
std::vector<std::size_t> read_smollm3_windows(const files::JsonReader& config, const std::vector<bool>& rotated) {
  if (!config.flag("use_sliding_window", false) || !config.has("sliding_window")) {
    // If the configuration has windows without this flag, whether transformers applies them depends on its kernel, so
    // they are refused.
    check_layer_types(config, rotated.size(), {"full_attention"});
    return {};
  }
  if (config.has("layer_types")) return read_windows(config, rotated.size());
  std::vector<std::size_t> windows(rotated.size(), config.size("sliding_window"));
  for (std::size_t layer = 0; layer < windows.size(); ++layer) {
    if (rotated[layer]) windows[layer] = 0;
  }
  return windows;
}

ModelSpec describe(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(
      config, {.context = 32768, .tied_embeddings = true, .heads = {.kv_heads = 4}, .rope = {.theta = 2e6}});
  read_llama_biases(config, decoder.spec.biases);
  ModelSpec spec = decoder.finish();
  const std::vector<bool> rotated = read_rotated_layers(config, spec.layers.size());
  for (std::size_t layer = 0; layer < rotated.size(); ++layer) {
    if (!rotated[layer]) spec.layers[layer].attention()->rope.reset();
  }
  set_windows(spec, read_smollm3_windows(config, rotated));
  return spec;
}

// A GGUF does not store which layers rotate: by the class's default every fourth does not.
constexpr std::size_t kUnrotatedPeriod = 4;

std::vector<files::GgufField> fields_of_gguf(const ModelSpec& spec) {
  const GgufLine line = {.architecture = "smollm3"};
  ModelSpec alike = spec;
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    std::optional<RopeSpec>& rope = alike.layers[layer].attention()->rope;
    if (rope.has_value() != ((layer + 1) % kUnrotatedPeriod != 0)) refuse_gguf(line, "other layers rotate");
    rope = spec.layers.front().attention()->rope;
  }
  return llama_line_to_gguf(alike, line);
}

nlohmann::json config_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, "smollm3");
  config["architectures"] = {"SmolLM3ForCausalLM"};
  return config;
}

}  // namespace
}  // namespace smollm3

constinit const Architecture kSmolLm3 = {
    .model_type = "smollm3",
    .gguf_architecture = "smollm3",
    .names = kLlamaNames,
    .describe = smollm3::describe,
    .config_from_gguf = smollm3::config_from_gguf,
    .gguf_fields = smollm3::fields_of_gguf,
    .gguf_interleaves_rope = true,
};

}  // namespace ballast::model
