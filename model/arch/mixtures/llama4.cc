// Llama 4: layers that rotate and then normalize heads, and layers that do neither, whose queries grow with their
// position; one routed expert reads the token times its score, in addition to a shared one. Rotating layers attend
// within chunks of a text: texts longer than a chunk are not supported.
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace llama4 {
namespace {

constexpr std::array<TensorNames, 23> kNames{{
    {Role::kEmbedding, "model.embed_tokens", ""},
    {Role::kFinalNorm, "model.norm", ""},
    {Role::kHead, "lm_head", ""},
    {Role::kHead, "language_model.lm_head", ""},
    {Role::kAttentionNorm, "model.layers.{}.input_layernorm", ""},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj", ""},
    {Role::kKey, "model.layers.{}.self_attn.k_proj", ""},
    {Role::kValue, "model.layers.{}.self_attn.v_proj", ""},
    {Role::kQueryNorm, "model.layers.{}.self_attn.q_norm", ""},
    {Role::kKeyNorm, "model.layers.{}.self_attn.k_norm", ""},
    {Role::kAttentionOutput, "model.layers.{}.self_attn.o_proj", ""},
    {Role::kMlpNorm, "model.layers.{}.post_attention_layernorm", ""},
    {Role::kGate, "model.layers.{}.feed_forward.gate_proj", ""},
    {Role::kUp, "model.layers.{}.feed_forward.up_proj", ""},
    {Role::kDown, "model.layers.{}.feed_forward.down_proj", ""},
    {Role::kRouter, "model.layers.{}.feed_forward.router", ""},
    {Role::kSharedGate, "model.layers.{}.feed_forward.shared_expert.gate_proj", ""},
    {Role::kSharedUp, "model.layers.{}.feed_forward.shared_expert.up_proj", ""},
    {Role::kSharedDown, "model.layers.{}.feed_forward.shared_expert.down_proj", ""},
    {Role::kExpertGate, "model.layers.{}.feed_forward.experts.{}.gate_proj", ""},
    {Role::kExpertUp, "model.layers.{}.feed_forward.experts.{}.up_proj", ""},
    {Role::kExpertDown, "model.layers.{}.feed_forward.experts.{}.down_proj", ""},
    {Role::kExpertDown, "model.layers.{}.feed_forward.experts.down_proj", ""},
}};
constexpr std::array<FusedTensor, 1> kFused{
    {{"model.layers.{}.feed_forward.experts.gate_up_proj", "", kGateAndUp, FusedTensor::Runs::kOne}}};

// Reads which layers have experts: a list of their numbers, or a period.
std::vector<bool> read_sparse_layers(const files::JsonReader& config, std::size_t layers) {
  std::vector<bool> sparse(layers);
  if (config.has("moe_layers")) {
    for (const files::JsonReader& layer : config.at("moe_layers").elements()) {
      const auto index = static_cast<std::size_t>(layer.integer(0, static_cast<int>(layers) - 1));
      sparse[index] = true;
    }
    return sparse;
  }
  const std::size_t step = config.size("interleave_moe_layer_step", 1);
  for (std::size_t layer = 0; layer < layers; ++layer) sparse[layer] = (layer + 1) % step == 0;
  return sparse;
}

// Limits the context to one chunk, in which layers with chunks (by default those that rotate) attend to the same tokens
// as the others.
void limit_to_chunk(const files::JsonReader& config, const std::vector<bool>& rotated, ModelSpec& spec) {
  const bool whole = config.json().contains("attention_chunk_size") && !config.has("attention_chunk_size");
  std::vector<bool> chunked = rotated;
  if (config.has("layer_types")) {
    chunked = read_layers_of_type(config, rotated.size(), "chunked_attention", {"chunked_attention", "full_attention"});
  }
  if (std::ranges::find(chunked, true) == chunked.end()) return;
  if (whole) config.fail("attention_chunk_size", "missing, and there are layers of the type chunked_attention");
  spec.context_length = std::min(spec.context_length, config.size("attention_chunk_size", 8192));
}

// Reads attn_temperature_tuning, which is a number in the first configurations.
bool tunes_temperature(const files::JsonReader& config) {
  constexpr const char* kField = "attn_temperature_tuning";
  if (!config.has(kField)) return true;
  return config.json().at(kField).is_number() ? config.number(kField) != 0 : config.flag(kField);
}

ModelSpec describe_text(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(
      config,
      {.context = 131072, .epsilon = 1e-5, .heads = {.kv_heads = 8, .head_size = 128}, .rope = {.theta = 500000.0}});
  read_attention_biases(config, decoder.spec.biases);
  ExpertSpec experts = read_experts(config, "num_local_experts", "intermediate_size");
  experts.shared_size = experts.size;
  experts.scoring = ExpertSpec::Scoring::kSigmoid;
  experts.weighs_inputs = true;
  decoder.mlp.size = config.size("intermediate_size_mlp", 16384);
  const bool norms = config.flag("use_qk_norm", true);
  std::optional<QueryGrowthSpec> growth;
  if (tunes_temperature(config)) {
    growth = {.slope = config.number("attn_scale", 0.1), .length = config.positive("floor_scale", 8192), .offset = 1};
  }

  ModelSpec spec = decoder.finish();
  const std::vector<bool> sparse = read_sparse_layers(config, decoder.layers);
  const std::vector<bool> rotated = read_rotated_layers(config, decoder.layers, EmptyList::kAbsent);
  for (std::size_t layer = 0; layer < decoder.layers; ++layer) {
    if (sparse[layer]) spec.layers[layer].mlp.experts = experts;
    AttentionSpec& attention = *spec.layers[layer].attention();
    if (rotated[layer]) {
      if (norms) attention.query_key_norm = HeadNormSpec{.after_rotation = true, .gain = false};
    } else {
      attention.rope.reset();
      attention.query_growth = growth;
    }
  }
  limit_to_chunk(config, rotated, spec);
  return spec;
}

ModelSpec describe_with_images(const files::JsonReader& config) {
  return spec_of_whole(config, describe_text(config.object("text_config")));
}

}  // namespace
}  // namespace llama4

constinit const Architecture kLlama4Text = {
    .model_type = "llama4_text",
    .names = llama4::kNames,
    .fused = llama4::kFused,
    .describe = llama4::describe_text,
    .transposed_experts = true,
    .huggingface_interleaves_rope = true,
};

constinit const Architecture kLlama4 = {
    .model_type = "llama4",
    .names = llama4::kNames,
    .fused = llama4::kFused,
    .describe = llama4::describe_with_images,
    .prefix = "model.",
    .other_prefixes = kTextPrefixes,
    .transposed_experts = true,
    .huggingface_interleaves_rope = true,
};

}  // namespace ballast::model
