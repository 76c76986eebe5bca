// Phi-3 and Phi-4: Llama with queries, keys and values in one matrix, gate and up in another, a window in every layer
// or none, and LongRoPE.
#include <array>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace {

constexpr std::array kAttentionParts = {Role::kQuery, Role::kKey, Role::kValue};
constexpr std::array kMlpParts = {Role::kGate, Role::kUp};
constexpr std::array<FusedTensor, 2> kFused{{
    {"model.layers.{}.self_attn.qkv_proj", "", kAttentionParts, FusedTensor::Runs::kOne},
    {"model.layers.{}.mlp.gate_up_proj", "", kMlpParts, FusedTensor::Runs::kOne},
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
  // Beyond that other factors hold, for all tokens of a text.
  if (decoder.attention.rope->scaling == RopeSpec::Scaling::kLongRope && context > original) {
    spec.context_length = original;
    spec.long_context = context;
  }
  return spec;
}

}  // namespace

constinit const Architecture kPhi3 = {
    .model_type = "phi3",
    .names = kLlamaNames,
    .fused = kFused,
    .describe = describe,
};

}  // namespace ballast::model
