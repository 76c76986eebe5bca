// The text models of Gemma 4 that are dense: layers with a window and layers with larger heads that see everything, of
// whose channels a quarter turns; norms of queries, keys and values; a factor of each layer's own on the stream.
#include <array>
#include <string>
#include <string_view>

#include "model/arch/architectures.h"
#include "model/arch/families/gemma.h"
#include "model/arch/rope_config.h"

namespace ballast::model {

namespace {

constexpr std::array<TensorNames, 1> kOwnNames{{{Role::kLayerScale, "model.layers.{}.layer_scalar", ""}}};
constexpr auto kNames = joined_names(kGemmaNames, kOwnNames);

constexpr std::size_t kPattern = 6;  // every so many layers one sees everything
constexpr std::size_t kGlobalHeadSize = 512;
constexpr double kGlobalPartial = 0.25;
constexpr double kGlobalTheta = 1e6;

void refuse_what_is_missing(const files::JsonReader& config) {
  const auto refuse = [&](const char* field, std::size_t by_class) {
    const std::size_t size = config.json().contains(field) && !config.has(field) ? 0 : config.count(field, by_class);
    if (size != 0) config.fail(field, "is " + std::to_string(size) + ": not supported");
  };
  refuse("hidden_size_per_layer_input", 256);
  refuse("num_kv_shared_layers", 0);
  if (config.flag("enable_moe_block", false)) config.fail("enable_moe_block", "true is not supported");
  if (config.has("use_bidirectional_attention") && config.text("use_bidirectional_attention") != "vision") {
    config.fail("use_bidirectional_attention", "is not supported for text");
  }
}

/// Heads of a layer that sees everything: in transformers' field by layer, or in the fields of the first checkpoints.
void read_global_heads(const files::JsonReader& config, std::size_t layer, AttentionSpec& attention) {
  std::size_t head_size = config.size("global_head_dim", kGlobalHeadSize);
  if (attention.values_are_keys) attention.kv_heads = config.size("num_global_key_value_heads", attention.kv_heads);
  if (config.has("per_layer_config")) {
    const files::JsonReader layers = config.object("per_layer_config");
    const std::string index = std::to_string(layer);
    if (layers.has(index)) {
      const files::JsonReader own = layers.object(index);
      for (const auto& [field, value] : own.members()) {
        if (field != "head_dim" && field != "num_key_value_heads") own.fail(field, "is not supported");
      }
      head_size = own.size("head_dim", attention.head_size);
      attention.kv_heads = own.size("num_key_value_heads", attention.kv_heads);
    }
  }
  if (attention.heads % attention.kv_heads != 0) {
    config.fail("num_global_key_value_heads", std::to_string(attention.kv_heads) + " does not divide the " +
                                                  std::to_string(attention.heads) + " attention heads");
  }
  attention.head_size = attention.value_size = head_size;
}

RopeSpec read_global_rope(const files::JsonReader& config, std::size_t head_size) {
  const RopeDefaults defaults = {.partial = kGlobalPartial, .theta = kGlobalTheta};
  if (config.has("rope_parameters")) {
    const files::JsonReader types = config.object("rope_parameters");
    if (types.has("full_attention")) {
      return read_proportional_rope(types.object("full_attention"), head_size, {.theta = kGlobalTheta});
    }
  }
  return read_proportional_rope(config, head_size, defaults);
}

ModelSpec describe(const files::JsonReader& config) {
  refuse_what_is_missing(config);
  DecoderConfig decoder =
      read_gemma_line(config, {.context = 131072, .tied_embeddings = true, .heads = {.kv_heads = 4, .head_size = 256}});
  decoder.spec.norm.gain_offset = 0.0;
  decoder.mlp.activation = read_activation(config, "hidden_activation", "gelu_pytorch_tanh");
  decoder.spec.post_norms = true;
  decoder.spec.layer_scales = true;
  decoder.spec.logit_cap = read_gemma_cap(config, "final_logit_softcapping", 0.0);
  decoder.attention.scale = 1.0;
  decoder.attention.query_key_norm = true;
  decoder.attention.value_norm = true;
  const bool shared = config.flag("attention_k_eq_v", false);
  std::vector<bool> sliding = read_sliding_layers(config, decoder.layers, kPattern);
  sliding.back() = false;  // whatever the list says
  const RopeSpec local = read_rope_of_type(config, "sliding_attention", decoder.attention.head_size, {});
  const std::size_t window = read_window(config, 512);
  ModelSpec spec = decoder.finish();
  for (std::size_t layer = 0; layer < sliding.size(); ++layer) {
    AttentionSpec& attention = *spec.layers[layer].attention();
    if (sliding[layer]) {
      attention.window = window;
      attention.rope = local;
    } else {
      attention.values_are_keys = shared;
      read_global_heads(config, layer, attention);
      attention.rope = read_global_rope(config, attention.head_size);
    }
  }
  return spec;
}

ModelSpec describe_with_images(const files::JsonReader& config) {
  return describe_gemma_text(config,
                             {{"num_hidden_layers", 30},
                              {"hidden_size", 2304},
                              {"num_attention_heads", 8},
                              {"intermediate_size", 9216},
                              {"vocab_size", 262144}},
                             describe);
}

}  // namespace

constinit const Architecture kGemma4Text = {
    .model_type = "gemma4_text",
    .names = kNames,
    .describe = describe,
};

constinit const Architecture kGemma4 = {
    .model_type = "gemma4",
    .names = kNames,
    .describe = describe_with_images,
    .prefix = "model.",
    .other_prefixes = kTextPrefixes,
};

}  // namespace ballast::model
