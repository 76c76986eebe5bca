// Attention whose queries, keys and values come out of latent vectors: LatentAttentionSpec.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "model/mixer/attention_kinds.h"
#include "model/mixer/head_attention.h"
#include "model/mixer/head_roles.h"

namespace ballast::model {

namespace {

class LatentAttention final : public HeadAttention {
 public:
  LatentAttention(const LatentAttentionSpec& spec, const BlockParts& parts) : HeadAttention(spec.attention, parts) {
    if (spec.query_rank > 0) {
      query_down_ = parts.linear({Role::kQueryDown});
      query_down_norm_ = parts.norm(Role::kQueryDownNorm);
    }
    key_value_down_ = parts.linear({Role::kKeyValueDown});
    key_value_down_norm_ = parts.norm(Role::kKeyValueDownNorm);
    key_position_ = parts.linear({Role::kKeyPosition});
    query_ = parts.linear({Role::kQuery});
    key_ = parts.linear({Role::kKey});
    value_ = parts.linear({Role::kValue});
  }

  void for_each_linear(const std::function<void(const Linear&, Role)>& visit) const override {
    if (query_down_) visit(*query_down_, Role::kQueryDown);
    visit(key_value_down_, Role::kKeyValueDown);
    visit(key_position_, Role::kKeyPosition);
    visit(query_, Role::kQuery);
    visit(key_, Role::kKey);
    visit(value_, Role::kValue);
    HeadAttention::for_each_linear(visit);
  }

  void for_each_norm(const std::function<void(const Norm&)>& visit) const override {
    visit(query_down_norm_);
    visit(key_value_down_norm_);
    HeadAttention::for_each_norm(visit);
  }

 private:
  void project(const BlockPass& pass, const HeadRow& layout, const LinearRows& input) const override {
    const LatentAttentionSpec& sizes = *pass.layer.latent();
    BlockActivations& a = pass.activations;
    const std::size_t m = pass.tokens;
    a.query_latent.grow(m * sizes.query_rank);
    a.key_value_latent.grow(m * sizes.key_value_rank);
    a.key_position.grow(m * rotary_size(sizes.attention));
    a.plain_keys.grow(m * sizes.attention.kv_heads * rotary_offset(pass.layer));
    project_down(pass, layout, input);
    project_up(pass, layout);
    join_keys(pass, layout);
  }

  /// Into the latent vectors; queries that have none, straight.
  void project_down(const BlockPass& pass, const HeadRow& layout, const LinearRows& input) const {
    const LatentAttentionSpec& sizes = *pass.layer.latent();
    BlockActivations& a = pass.activations;
    LinearOutputs down;
    if (query_down_) {
      down.add({&*query_down_, a.query_latent.data(), sizes.query_rank});
    } else {
      down.add({&query_, a.query_key_value.data(), layout.size});
    }
    down.add({&key_value_down_, a.key_value_latent.data(), sizes.key_value_rank});
    down.add({&key_position_, a.key_position.data(), rotary_size(sizes.attention)});
    add_output_gate(down, a);
    pass.apply_linears(down.all(), input, pass.tokens);
  }

  /// Out of them.
  void project_up(const BlockPass& pass, const HeadRow& layout) const {
    const LatentAttentionSpec& sizes = *pass.layer.latent();
    BlockActivations& a = pass.activations;
    const std::size_t m = pass.tokens;
    float* row = a.query_key_value.data();
    if (query_down_) {
      query_down_norm_.apply(a.query_latent.data(), m, a.query_latent.data());
      const LinearOutput query[] = {{&query_, row, layout.size}};
      pass.apply_linears(query, {a.query_latent.data(), sizes.query_rank}, m);
    }
    key_value_down_norm_.apply(a.key_value_latent.data(), m, a.key_value_latent.data());
    const std::size_t plain_size = sizes.attention.kv_heads * rotary_offset(pass.layer);
    const LinearOutput up[] = {{&key_, a.plain_keys.data(), plain_size}, {&value_, row + layout.values, layout.size}};
    pass.apply_linears(up, {a.key_value_latent.data(), sizes.key_value_rank}, m);
  }

  /// Puts keys together from their plain and their common rotated part, which is rotated later, in every head.
  static void join_keys(const BlockPass& pass, const HeadRow& layout) {
    const AttentionSpec& spec = *pass.layer.attention();
    const BlockActivations& a = pass.activations;
    const std::size_t rotary = rotary_size(spec);
    const std::size_t plain = rotary_offset(pass.layer);
    float* rows = pass.activations.query_key_value.data();
    for (std::size_t i = 0; i < pass.tokens; ++i) {
      for (std::size_t head = 0; head < spec.kv_heads; ++head) {
        float* key = rows + i * layout.size + layout.keys + head * spec.head_size;
        std::copy_n(a.plain_keys.data() + (i * spec.kv_heads + head) * plain, plain, key);
        std::copy_n(a.key_position.data() + i * rotary, rotary, key + plain);
      }
    }
  }

  kernels::KeyBias key_bias(const BlockPass& /*pass*/) const override { return {}; }

  std::optional<Linear> query_down_;
  Norm query_down_norm_;  ///< its gain is empty where queries have no latent vector
  Linear key_value_down_;
  Norm key_value_down_norm_;
  Linear key_position_;
  Linear query_, key_, value_;
};

bool has_query_latent(const ModelSpec& /*spec*/, const LayerSpec& layer) {
  return layer.latent()->query_rank > 0;
}

NormSpec latent_norm(const ModelSpec& spec, const LayerSpec& layer) {
  return {.kind = NormSpec::Kind::kRms,
          .epsilon = layer.latent()->epsilon,
          .bias = false,
          .gain_offset = spec.norm.gain_offset};
}

const char* latent_norm_follows(const LayerSpec& /*layer*/) {
  return "the latent vector's norm follows";
}

constexpr std::array<RoleRow, 12> kRoles{{
    {.role = Role::kQueryDown,
     .shape = [](const ModelSpec& spec,
                 const LayerSpec& layer) { return MatrixShape{layer.latent()->query_rank, spec.hidden_size}; },
     .present = has_query_latent,
     .bias_flag = &BiasSpec::latent,
     .reads = Role::kAttentionNorm,
     .why_bias_stays = latent_norm_follows},
    {.role = Role::kQueryDownNorm,
     .kind = RoleRow::Kind::kNorm,
     .shape = [](const ModelSpec&, const LayerSpec& layer) { return MatrixShape{1, layer.latent()->query_rank}; },
     .present = has_query_latent,
     .norm = latent_norm},
    {.role = Role::kQuery,
     .shape =
         [](const ModelSpec& spec, const LayerSpec& layer) {
           const std::size_t rank = layer.latent()->query_rank;
           return MatrixShape{layer.attention()->heads * layer.attention()->head_size,
                              rank > 0 ? rank : spec.hidden_size};
         },
     .bias_flag = &BiasSpec::query,
     .reads = Role::kQueryDownNorm,
     .why_bias_stays = why_query_bias_stays},
    {.role = Role::kKeyValueDown,
     .shape = [](const ModelSpec& spec,
                 const LayerSpec& layer) { return MatrixShape{layer.latent()->key_value_rank, spec.hidden_size}; },
     .bias_flag = &BiasSpec::latent,
     .reads = Role::kAttentionNorm,
     .why_bias_stays = latent_norm_follows},
    {.role = Role::kKeyPosition,
     .shape = [](const ModelSpec& spec,
                 const LayerSpec& layer) { return MatrixShape{rotary_size(*layer.attention()), spec.hidden_size}; },
     .bias_flag = &BiasSpec::latent,
     .reads = Role::kAttentionNorm,
     .why_bias_stays =
         [](const LayerSpec&) {
           return "it is rotated with each key's position, so it adds something else to every score";
         }},
    kOutputGateRow,
    {.role = Role::kKeyValueDownNorm,
     .kind = RoleRow::Kind::kNorm,
     .shape = [](const ModelSpec&, const LayerSpec& layer) { return MatrixShape{1, layer.latent()->key_value_rank}; },
     .norm = latent_norm},
    {.role = Role::kKey,
     .shape =
         [](const ModelSpec&, const LayerSpec& layer) {
           return MatrixShape{layer.attention()->kv_heads * rotary_offset(layer), layer.latent()->key_value_rank};
         },
     .bias_flag = &BiasSpec::key,
     .reads = Role::kKeyValueDownNorm},
    {.role = Role::kValue,
     .shape =
         [](const ModelSpec&, const LayerSpec& layer) {
           return MatrixShape{layer.attention()->kv_heads * layer.attention()->value_size,
                              layer.latent()->key_value_rank};
         },
     .bias_flag = &BiasSpec::value,
     .reads = Role::kKeyValueDownNorm},
    kQueryNormRow,
    kKeyNormRow,
    kAttentionOutputRow,
}};

std::unique_ptr<const Mixer> assemble(const ModelSpec& spec, std::size_t layer, const BlockParts& parts) {
  return std::make_unique<LatentAttention>(*spec.layers[layer].latent(), parts);
}

}  // namespace

constinit const MixerKind kLatentAttention = {.name = "latent attention",
                                              .roles = kRoles,
                                              .assemble = assemble,
                                              .cache_shape = cache_shape_of_heads,
                                              .value_path = value_path_of_heads};

}  // namespace ballast::model
