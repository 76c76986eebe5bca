#include "model/arch/gguf_fields.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "ballast/error.h"
#include "model/arch/gguf_config.h"

namespace ballast::model {

namespace {

std::uint32_t u32(std::size_t value) {
  return static_cast<std::uint32_t>(value);
}

[[noreturn]] void refuse(std::string_view architecture, const std::string& what) {
  throw Error("GGUF of " + std::string(architecture), "cannot say that " + what);
}

/// What the keys below say nothing of must be as it always is in this line.
void check_llama_line(const ModelSpec& spec, std::string_view architecture) {
  const LayerSpec& first = spec.layers.front();
  const AttentionSpec* attention = first.attention();
  if (attention == nullptr || first.latent() != nullptr || !attention->rope)
    refuse(architecture, "layers do not rotate");
  if (std::ranges::any_of(spec.layers, [&](const LayerSpec& layer) { return !(layer == first); })) {
    refuse(architecture, "layers differ");
  }
  if (attention->rope->rotary_size != attention->head_size) refuse(architecture, "heads rotate in part");
  const double plain_scale = 1 / std::sqrt(static_cast<double>(attention->head_size));
  const AttentionSpec plain = {.heads = attention->heads,
                               .kv_heads = attention->kv_heads,
                               .head_size = attention->head_size,
                               .value_size = attention->head_size,
                               .scale = attention->scale,
                               .rope = attention->rope,
                               .query_key_norm = attention->query_key_norm};
  if (!(*attention == plain) || std::abs(attention->scale - plain_scale) > 1e-6 * plain_scale) {
    refuse(architecture, "attention has windows, caps, gates or another scale");
  }
  const MlpSpec mlp = {.size = first.mlp.size};
  if (!(first.mlp == mlp)) refuse(architecture, "the MLP is not gated by SiLU");
  const bool plain_norms = spec.norm.kind == NormSpec::Kind::kRms && !spec.norm.bias && spec.norm.gain;
  if (!plain_norms || spec.layout != BlockLayout::kPreNorm || spec.post_norms) {
    refuse(architecture, "norms are not RMSNorms before attention and MLP");
  }
  if (spec.embedding_scale != 1 || spec.logit_scale != 1 || spec.residual_scale != 1 || spec.logit_cap != 0) {
    refuse(architecture, "factors multiply the stream or the logits");
  }
}

void add_scaling(const RopeSpec& rope, const std::string& base, std::vector<files::GgufField>& fields) {
  using enum RopeSpec::Scaling;
  if (rope.backwards || rope.turning_pairs != 0 || rope.scaling == kLongRope) {
    refuse(base, "rotations are LongRoPE's, backwards or of some pairs alone");
  }
  const bool usual_amplitude = std::abs(rope.amplitude - (1 + 0.1 * std::log(rope.factor))) < 1e-6;
  if (rope.scaling == kYarn && !(rope.truncate && usual_amplitude)) {
    refuse(base, "YaRN's bounds or amplitude are others than its paper's");
  }
  const bool linear = rope.scaling == kLinear;
  if (!linear && rope.scaling != kYarn) return;  // Llama 3's is a tensor
  fields.push_back({base + ".rope.scaling.type", std::string(linear ? "linear" : "yarn")});
  fields.push_back({base + ".rope.scaling.factor", static_cast<float>(rope.factor)});
  if (linear) return;
  fields.push_back(
      {base + ".rope.scaling.original_context_length", u32(static_cast<std::size_t>(rope.original_context))});
  fields.push_back({base + ".rope.scaling.yarn_beta_fast", static_cast<float>(rope.beta_fast)});
  fields.push_back({base + ".rope.scaling.yarn_beta_slow", static_cast<float>(rope.beta_slow)});
}

}  // namespace

std::vector<files::GgufField> llama_line_to_gguf(const ModelSpec& spec, std::string_view architecture) {
  check_llama_line(spec, architecture);
  const std::string base(architecture);
  const AttentionSpec& attention = *spec.layers.front().attention();
  std::vector<files::GgufField> fields = {
      {base + ".context_length", u32(spec.context_length)},
      {base + ".embedding_length", u32(spec.hidden_size)},
      {base + ".block_count", u32(spec.layers.size())},
      {base + ".feed_forward_length", u32(spec.layers.front().mlp.size)},
      {base + ".attention.head_count", u32(attention.heads)},
      {base + ".attention.head_count_kv", u32(attention.kv_heads)},
      {base + ".attention.key_length", u32(attention.head_size)},
      {base + ".attention.value_length", u32(attention.head_size)},
      {base + ".attention.layer_norm_rms_epsilon", static_cast<float>(spec.norm.epsilon)},
      {base + ".rope.freq_base", static_cast<float>(attention.rope->theta)},
      {base + ".rope.dimension_count", u32(attention.rope->rotary_size)},
      {base + ".vocab_size", u32(spec.vocab_size)},
  };
  add_scaling(*attention.rope, base, fields);
  return fields;
}

std::vector<float> gguf_rope_factors(const ModelSpec& spec) {
  const AttentionSpec* attention = spec.first_attention();
  if (attention == nullptr || !attention->rope) return {};
  if (attention->rope->scaling != RopeSpec::Scaling::kLlama3) return {};
  const std::vector<double> factors = frequency_factors(*attention->rope);
  return {factors.begin(), factors.end()};
}

}  // namespace ballast::model
