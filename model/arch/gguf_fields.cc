#include "model/arch/gguf_fields.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "ballast/error.h"
#include "model/arch/gguf_config.h"

namespace ballast::model {

namespace {

bool nearly(double a, double b, double tolerance) {
  return std::abs(a - b) <= tolerance * std::abs(b);
}

/// Returns the properties that layers with a window share with the others, if keys hold the rest.
LayerSpec common_part(LayerSpec layer, const RopeSpec& rope) {
  layer.attention()->window = 0;
  layer.attention()->rope = rope;
  return layer;
}

void check_rotation(const RopeSpec& rope, const GgufLine& line) {
  using enum RopeSpec::Scaling;
  if (rope.backwards || rope.turning_pairs != 0) refuse_gguf(line, "rotations are backwards or of some pairs alone");
  if ((rope.scaling == kLongRope && !line.long_rope) || (rope.scaling == kLlama3 && !line.rope_factors)) {
    refuse_gguf(line, "rotations are stretched as LongRoPE or Llama 3 does");
  }
  if (rope.scaling != kYarn) return;
  // llama.cpp has these values as constants.
  const bool usual = rope.truncate && rope.beta_fast == 32 && rope.beta_slow == 1 &&
                     std::abs(rope.amplitude - (1 + 0.1 * std::log(rope.factor))) < 1e-6;
  if (!usual) refuse_gguf(line, "YaRN's bounds or amplitude are others than its paper's");
}

void check_attention(const ModelSpec& spec, const GgufLine& line) {
  for (const LayerSpec& layer : spec.layers) {
    const AttentionSpec* attention = layer.attention();
    if (attention == nullptr || layer.latent() != nullptr || !attention->rope) {
      refuse_gguf(line, "layers do not rotate");
    }
    if (!line.partial_rotation && attention->rope->rotary_size != attention->head_size) {
      refuse_gguf(line, "heads rotate in part");
    }
    check_rotation(*attention->rope, line);
  }
  const RopeSpec& rope = *spec.layers.front().attention()->rope;
  const LayerSpec first = line.windows ? common_part(spec.layers.front(), rope) : spec.layers.front();
  for (const LayerSpec& layer : spec.layers) {
    if (!((line.windows ? common_part(layer, rope) : layer) == first)) refuse_gguf(line, "layers differ");
  }
  const AttentionSpec& attention = *first.attention();
  const double root = std::sqrt(static_cast<double>(attention.head_size));
  const bool normed = attention.query_key_norm.has_value();
  const AttentionSpec plain = {.heads = attention.heads,
                               .kv_heads = attention.kv_heads,
                               .head_size = attention.head_size,
                               .value_size = attention.head_size,
                               .scale = attention.scale,
                               .window = line.window,
                               .rope = attention.rope,
                               .query_key_norm = normed ? std::optional(HeadNormSpec{}) : std::nullopt,
                               .score_cap = line.score_cap};
  const double scale = line.attention_scale == 0 ? 1 / root : line.attention_scale;
  if (!(attention == plain) || !nearly(attention.scale, scale, 1e-6)) {
    refuse_gguf(line, "attention has windows, caps, gates or another scale");
  }
  if (!line.wide_attention && attention.heads * attention.head_size != spec.hidden_size) {
    refuse_gguf(line, "heads together have another size than the residual stream");
  }
}

void check_outside(const ModelSpec& spec, const GgufLine& line) {
  if (!spec.causal || !spec.has_head) refuse_gguf(line, "there is no head, or tokens see those after them");
  using enum GgufLine::Head;
  if (line.head != kEither && spec.tied_embeddings != (line.head == kTied)) {
    refuse_gguf(line, spec.tied_embeddings ? "the head is the embedding" : "the head is no embedding");
  }
  const bool plain_norms = spec.norm.kind == NormSpec::Kind::kRms && !spec.norm.bias && spec.norm.gain;
  if (!plain_norms || spec.layout != BlockLayout::kPreNorm || spec.post_norms != line.post_norms) {
    refuse_gguf(line, "norms are of another kind, or elsewhere");
  }
  constexpr double kRoundedByOriginals = 0.004;  // to BF16
  const double tolerance = line.embedding_scale == 1 ? 0 : kRoundedByOriginals;
  if (!nearly(spec.embedding_scale, line.embedding_scale, tolerance) || spec.logit_scale != line.logit_scale ||
      spec.residual_scale != line.residual_scale || spec.logit_cap != line.logit_cap) {
    refuse_gguf(line, "factors or caps change the stream or the logits");
  }
  const BiasSpec& biases = spec.biases;
  const bool others = biases.attention_output || biases.up || biases.down;
  if (biases.head || (others && !line.other_biases)) {
    refuse_gguf(line, "other matrices than those of queries, keys and values have biases");
  }
}

/// Properties without a key must have the usual value of this line.
void check_llama_line(const ModelSpec& spec, const GgufLine& line) {
  check_outside(spec, line);
  check_attention(spec, line);
  const MlpSpec& mlp = spec.layers.front().mlp;
  const MlpSpec usual = {.size = mlp.size, .activation = line.activation, .experts = line.experts};
  if (!(mlp == usual)) refuse_gguf(line, "MLP or experts are of another kind");
}

void add_scaling(const RopeSpec& rope, const GgufLine& line, std::vector<files::GgufField>& fields) {
  using enum RopeSpec::Scaling;
  const bool linear = rope.scaling == kLinear;
  if (!linear && rope.scaling != kYarn) return;
  fields.push_back({std::string(line.architecture) + ".rope.scaling.type", std::string(linear ? "linear" : "yarn")});
  fields.push_back(gguf_field(line, "rope.scaling.factor", rope.factor));
  if (linear) return;
  fields.push_back(
      gguf_field(line, "rope.scaling.original_context_length", static_cast<std::size_t>(rope.original_context)));
}

/// Returns the rotation of the layers with full attention, or, if there are none, of the first layer.
const RopeSpec& main_rope(const ModelSpec& spec) {
  const auto global =
      std::ranges::find_if(spec.layers, [](const LayerSpec& layer) { return layer.attention()->window == 0; });
  return *(global == spec.layers.end() ? spec.layers.front() : *global).attention()->rope;
}

}  // namespace

files::GgufField gguf_field(const GgufLine& line, std::string_view name, std::size_t value) {
  return {std::string(line.architecture) + "." + std::string(name), static_cast<std::uint32_t>(value)};
}

files::GgufField gguf_field(const GgufLine& line, std::string_view name, double value) {
  return {std::string(line.architecture) + "." + std::string(name), static_cast<float>(value)};
}

void refuse_gguf(const GgufLine& line, const std::string& what) {
  throw Error("GGUF of " + std::string(line.architecture), "cannot say that " + what);
}

ExpertSpec gguf_experts(const ModelSpec& spec, const ExpertSpec& usual) {
  const std::optional<ExpertSpec>& own = spec.layers.front().mlp.experts;
  ExpertSpec experts = usual;
  if (!own) return experts;
  experts.count = own->count;
  experts.per_token = own->per_token;
  experts.size = own->size;
  experts.shared_size = own->shared_size;
  return experts;
}

std::vector<files::GgufField> llama_line_to_gguf(const ModelSpec& spec, const GgufLine& line) {
  check_llama_line(spec, line);
  const AttentionSpec& attention = *spec.layers.front().attention();
  const MlpSpec& mlp = spec.layers.front().mlp;
  const RopeSpec& rope = main_rope(spec);
  std::vector<files::GgufField> fields = {
      gguf_field(line, "context_length", std::max(spec.context_length, spec.long_context)),
      gguf_field(line, "embedding_length", spec.hidden_size),
      gguf_field(line, "block_count", spec.layers.size()),
      gguf_field(line, "feed_forward_length", mlp.size == 0 && mlp.experts ? mlp.experts->size : mlp.size),
      gguf_field(line, "attention.head_count", attention.heads),
      gguf_field(line, "attention.head_count_kv", attention.kv_heads),
      gguf_field(line, "attention.key_length", attention.head_size),
      gguf_field(line, "attention.value_length", attention.head_size),
      gguf_field(line, "attention.layer_norm_rms_epsilon", spec.norm.epsilon),
      gguf_field(line, "rope.freq_base", rope.theta),
      gguf_field(line, "rope.dimension_count", rope.rotary_size),
      gguf_field(line, "vocab_size", spec.vocab_size),
  };
  if (mlp.experts) {
    fields.push_back(gguf_field(line, "expert_count", mlp.experts->count));
    fields.push_back(gguf_field(line, "expert_used_count", mlp.experts->per_token));
    fields.push_back(gguf_field(line, "expert_feed_forward_length", mlp.experts->size));
    if (const std::size_t shared = mlp.experts->shared_size; shared > 0) {
      fields.push_back(gguf_field(line, "expert_shared_feed_forward_length", shared));
    }
  }
  add_scaling(rope, line, fields);
  return fields;
}

std::vector<GgufVector> gguf_rope_tensors(const ModelSpec& spec) {
  const AttentionSpec* attention = spec.first_attention();
  if (attention == nullptr || !attention->rope) return {};
  const RopeSpec& rope = *attention->rope;
  const auto stored = [](const std::vector<double>& values) {
    return std::vector<float>(values.begin(), values.end());
  };
  if (rope.scaling == RopeSpec::Scaling::kLlama3) return {{"rope_freqs.weight", stored(frequency_factors(rope))}};
  if (rope.scaling != RopeSpec::Scaling::kLongRope) return {};
  return {{"rope_factors_long.weight", stored(rope.long_factors.empty() ? rope.pair_factors : rope.long_factors)},
          {"rope_factors_short.weight", stored(rope.pair_factors)}};
}

}  // namespace ballast::model
