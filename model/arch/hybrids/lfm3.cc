// LFM3: LFM2's short convolutions over more tokens; attention with a gate per head, in some layers with a window, in
// others full attention, where a part of each head's pairs rotates; norms before and after both halves.
#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/hybrids/lfm.h"
#include "model/arch/rope_config.h"

namespace ballast::model {

namespace lfm3 {
namespace {

// The gate's first name is that of checkpoints, the second that of transformers' module.
constexpr std::array<TensorNames, 7> kOwnNames{{
    {Role::kQueryNorm, "model.layers.{}.self_attn.q_norm", ""},
    {Role::kKeyNorm, "model.layers.{}.self_attn.k_norm", ""},
    {Role::kOutputGate, "model.layers.{}.self_attn.gate_proj", ""},
    {Role::kOutputGate, "model.layers.{}.self_attn.g_proj", ""},
    {Role::kAttentionOutput, "model.layers.{}.self_attn.o_proj", ""},
    {Role::kAttentionPostNorm, "model.layers.{}.post_operator_norm", ""},
    {Role::kMlpPostNorm, "model.layers.{}.post_ffn_norm", ""},
}};
constexpr auto kNames = joined_names(kLfmNames, kOwnNames);

constexpr std::string_view kConvolution = "conv";
constexpr std::string_view kFull = "full_attention";
constexpr std::string_view kSliding = "sliding_attention";

/// Returns the type of each layer. Without the field every second layer attends, beginning with the third; these
/// alternate between full attention and a window.
std::vector<std::string> read_layer_types(const files::JsonReader& config, std::size_t layers) {
  if (config.has("layer_types")) {
    check_layer_types(config, layers, {kConvolution, kFull, kSliding});
    return config.at("layer_types").strings();
  }
  std::vector<std::string> types(layers, std::string(kConvolution));
  for (std::size_t layer = 2; layer < layers; layer += 2) types[layer] = layer % 4 == 2 ? kFull : kSliding;
  return types;
}

/// Returns the rotation of the layers of one type. All channels of a head form pairs. With the rope_type "proportional"
/// only the first pairs turn; with "default" all do, and transformers ignores `partial_rotary_factor`.
RopeSpec read_rotation(const files::JsonReader& config, std::string_view layer_type, std::size_t head_size) {
  if (!config.has("rope_parameters")) {
    if (config.has("rope_scaling")) config.fail("rope_scaling", "is not supported: use rope_parameters");
    if (layer_type == kSliding) return {.theta = 1e4, .rotary_size = head_size};
    return {.theta = 1e6, .rotary_size = head_size, .turning_pairs = std::max<std::size_t>(1, head_size / 4)};
  }
  const files::JsonReader types = config.object("rope_parameters");
  if (!types.has(layer_type)) types.fail(layer_type, "missing, but there are layers of this type");
  const files::JsonReader parameters = types.object(layer_type);
  const RopeDefaults defaults = {.theta = 1e6};
  const std::string type = parameters.text("rope_type", parameters.text("type", "default"));
  if (type == "proportional") return read_proportional_rope(parameters, head_size, defaults);
  if (type == "default") return {.theta = parameters.positive("rope_theta", defaults.theta), .rotary_size = head_size};
  const RopeSpec rope = read_rope_parameters(parameters, head_size, defaults);
  if (rope.rotary_size != head_size) {
    parameters.fail("partial_rotary_factor", "must be 1 for the rope_type '" + type + "'");
  }
  return rope;
}

ModelSpec describe(const files::JsonReader& config) {
  constexpr std::size_t kWidth = 7;
  constexpr std::size_t kWindow = 256;
  DecoderConfig decoder = read_llama_line(config, {.context = 128000,
                                                   .tied_embeddings = true,
                                                   .epsilon = config.positive("norm_eps", 1e-5),
                                                   .heads = {.kv_heads = 4, .head_size = 128}});
  read_attention_biases(config, decoder.spec.biases);
  decoder.spec.post_norms = config.flag("use_sandwich_norm", true);
  decoder.attention.query_key_norm = HeadNormSpec{};
  decoder.attention.output_gate = decoder.attention.head_gates = config.flag("use_attention_gate", true);
  const ShortConvolutionSpec convolution = read_lfm_convolution(config, kWidth, decoder.spec);
  ModelSpec spec = decoder.finish();
  const std::vector<std::string> types = read_layer_types(config, decoder.layers);
  for (std::size_t layer = 0; layer < types.size(); ++layer) {
    if (types[layer] == kConvolution) {
      spec.layers[layer].mixer = convolution;
      continue;
    }
    AttentionSpec& attention = *spec.layers[layer].attention();
    if (types[layer] == kSliding) attention.window = read_window(config, kWindow);
    attention.rope = read_rotation(config, types[layer], attention.head_size);
  }
  return spec;
}

}  // namespace
}  // namespace lfm3

constinit const Architecture kLfm3 = {
    .model_type = "lfm3",
    .names = lfm3::kNames,
    .fused = kFusedLfm,
    .describe = lfm3::describe,
};

}  // namespace ballast::model
