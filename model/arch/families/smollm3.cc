// SmolLM3: Llama with a layer in four whose queries and keys are not rotated.
#include <string>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace {

// Which layers rotate: a list of one entry for each layer or more, else all but every so many.
std::vector<bool> read_rotated_layers(const files::JsonReader& config, std::size_t layers) {
  std::vector<bool> rotated(layers);
  if (!config.has("no_rope_layers")) {
    const std::size_t interval = config.size("no_rope_layer_interval", 4);
    for (std::size_t layer = 0; layer < layers; ++layer) rotated[layer] = (layer + 1) % interval != 0;
    return rotated;
  }
  // Despite the field's name 1 says that a layer rotates.
  const std::vector<int> flags = config.at("no_rope_layers").integers<int>(0, 1);
  if (flags.size() < layers) {
    config.fail("no_rope_layers",
                "has " + std::to_string(flags.size()) + " entries for " + std::to_string(layers) + " layers");
  }
  for (std::size_t layer = 0; layer < layers; ++layer) rotated[layer] = flags[layer] != 0;
  return rotated;
}

// Without a list of types those layers have a window that do not rotate.
std::vector<std::size_t> read_smollm3_windows(const files::JsonReader& config, const std::vector<bool>& rotated) {
  if (!config.flag("use_sliding_window", false) || !config.has("sliding_window")) {
    // Whether a layer that is said to have a window has one then depends on transformers' kernel.
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

}  // namespace

constinit const Architecture kSmolLm3 = {
    .model_type = "smollm3",
    .names = kLlamaNames,
    .describe = describe,
};

}  // namespace ballast::model
