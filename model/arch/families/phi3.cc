// Phi-3 and Phi-4: Llama with queries, keys and values in one matrix, gate and up in another, a window in every layer
// or none, and LongRoPE.
#include <array>
#include <cstddef>
#include <vector>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/gguf_config.h"
#include "model/arch/gguf_fields.h"

namespace ballast::model {

namespace phi3 {
namespace {

constexpr std::array kAttentionParts = {Role::kQuery, Role::kKey, Role::kValue};
constexpr std::array kMlpParts = {Role::kGate, Role::kUp};
constexpr std::array<FusedTensor, 2> kFused{{
    {"model.layers.{}.self_attn.qkv_proj", "blk.{}.attn_qkv", kAttentionParts, FusedTensor::Runs::kOne},
    {"model.layers.{}.mlp.gate_up_proj", "blk.{}.ffn_up", kMlpParts, FusedTensor::Runs::kOne},
}};

ModelSpec describe(const files::JsonReader& config) {
  constexpr std::size_t kContext = 4096;
  const std::size_t original = config.size("original_max_position_embeddings", kContext);
  const std::size_t context = config.size("max_position_embeddings", kContext);
  const RopeDefaults::LongRope longrope = {.original_context = static_cast<double>(original),
                                           .context = static_cast<double>(context)};
  DecoderConfig decoder =
      read_llama_line(config, {.context = kContext, .epsilon = 1e-5, .rope = {.longrope = longrope}});
  ModelSpec spec = decoder.finish();
  set_uniform_window(config, {}, spec);
  // In longer texts other factors apply, and then to all tokens of a text.
  if (decoder.attention.rope->scaling == RopeSpec::Scaling::kLongRope && context > original) {
    spec.context_length = original;
    spec.long_context = context;
  }
  return spec;
}

std::vector<files::GgufField> fields_of_gguf(const ModelSpec& spec) {
  const AttentionSpec& attention = *spec.first_attention();
  const RopeSpec& rope = *attention.rope;
  const GgufLine line = {.architecture = "phi3",
                         .wide_attention = false,
                         .partial_rotation = true,
                         .long_rope = rope.scaling == RopeSpec::Scaling::kLongRope,
                         .window = attention.window};
  std::vector<files::GgufField> fields = llama_line_to_gguf(spec, line);
  if (line.window > 0) fields.push_back(gguf_field(line, "attention.sliding_window", line.window));
  if (!line.long_rope) return fields;
  const auto original = static_cast<std::size_t>(rope.original_context);
  fields.push_back(gguf_field(line, "rope.scaling.original_context_length", original));
  fields.push_back(gguf_field(line, "rope.scaling.attn_factor", rope.amplitude));
  return fields;
}

nlohmann::json config_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, "phi3", {.window = true, .partial_rotation = true});
  const GgufMetadata metadata(file, "phi3");
  config["architectures"] = {"Phi3ForCausalLM"};
  config.erase("head_dim");  // the class has no such field
  if (const std::size_t window = metadata.count("attention.sliding_window", 0); window > 0) {
    config["sliding_window"] = window;
  }
  constexpr const char* kOriginalContext = "rope.scaling.original_context_length";
  if (metadata.has(kOriginalContext)) config["original_max_position_embeddings"] = metadata.size(kOriginalContext);
  if (!file.contains("rope_factors_long.weight")) return config;
  nlohmann::json& rope = config["rope_parameters"];
  rope["rope_type"] = "longrope";
  rope["short_factor"] = list_from_gguf(file, "rope_factors_short.weight");
  rope["long_factor"] = list_from_gguf(file, "rope_factors_long.weight");
  if (metadata.has("rope.scaling.attn_factor")) {
    rope["attention_factor"] = metadata.positive("rope.scaling.attn_factor");
  }
  return config;
}

}  // namespace
}  // namespace phi3

constinit const Architecture kPhi3 = {
    .model_type = "phi3",
    .gguf_architecture = "phi3",
    .names = kLlamaNames,
    .fused = phi3::kFused,
    .describe = phi3::describe,
    .config_from_gguf = phi3::config_from_gguf,
    .gguf_fields = phi3::fields_of_gguf,
};

}  // namespace ballast::model
