// Qwen3-Next, its full-attention layers: a sigmoid gate on the attention's output, QK-norm, partial RoPE, norm gains
// stored minus one.
#include <algorithm>
#include <array>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/rope_config.h"

namespace ballast::model {

namespace {

// q_proj holds the query and the gate of one head after the other.
constexpr std::array kQueryParts = {Role::kQuery, Role::kOutputGate};
constexpr std::array<FusedTensor, 1> kFused{
    {{"model.layers.{}.self_attn.q_proj", "", kQueryParts, FusedTensor::Runs::kHeads}}};

void check_plain_mlps(const files::JsonReader& config, std::size_t layers) {
  if (config.count("num_experts", 512) == 0) return;
  const std::size_t step = config.size("decoder_sparse_step", 1);
  std::vector<std::size_t> plain;
  if (config.has("mlp_only_layers")) plain = config.at("mlp_only_layers").integers<std::size_t>();
  for (std::size_t layer = 0; layer < layers; ++layer) {
    if ((layer + 1) % step != 0 || std::ranges::find(plain, layer) != plain.end()) continue;
    config.fail("mlp_only_layers",
                "layer " + std::to_string(layer) + " has experts, which are not supported for this architecture");
  }
}

ModelSpec describe(const files::JsonReader& config) {
  // The configuration class has a default that no other family has.
  if (!config.has("head_dim")) config.fail("head_dim", "missing");
  DecoderConfig decoder = read_llama_line(config);
  if (!config.has("layer_types")) {
    config.fail("layer_types", "missing: three of four layers are 'linear_attention' then, which is not supported");
  }
  check_layer_types(config, decoder.layers, {"full_attention"});
  check_plain_mlps(config, decoder.layers);
  decoder.attention.rope = read_rope(config, decoder.attention.head_size, 0.25);
  BiasSpec& biases = decoder.spec.biases;
  biases.query = biases.key = biases.value = biases.attention_output = config.flag("attention_bias", false);
  decoder.attention.query_key_norm = true;
  decoder.attention.output_gate = true;
  decoder.spec.norm.gain_offset = 1.0;
  return decoder.finish();
}

}  // namespace

constinit const Architecture kQwen3Next = {
    .model_type = "qwen3_next",
    .names = kLlamaNames,
    .fused = kFused,
    .describe = describe,
};

}  // namespace ballast::model
