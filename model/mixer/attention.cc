// Attention whose queries, keys and values are projections of the block's input.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "model/mixer/attention_kinds.h"
#include "model/mixer/head_attention.h"
#include "model/mixer/head_roles.h"

namespace ballast::model {

namespace attention {
namespace {

/// Returns the shape of the keys and values that the layer reads, its own or another layer's.
CacheShape shape_of_heads(const LayerSpec& layer) {
  const AttentionSpec& attention = *layer.attention();
  return {.kv_heads = attention.kv_heads,
          .key_size = attention.head_size,
          .value_size = attention.value_size,
          .window = attention.window};
}

class Attention final : public HeadAttention {
 public:
  Attention(const AttentionSpec& spec, const BlockParts& parts)
      : HeadAttention(spec, parts), query_(parts.linear({Role::kQuery})) {
    if (spec.keys_of) return;
    key_ = parts.linear({Role::kKey});
    if (!spec.values_are_keys) value_ = parts.linear({Role::kValue});
    if (spec.disentangled) set_distance_scores(spec, parts, query_, *key_);
  }

  void for_each_linear(const std::function<void(const Linear&, Role)>& visit) const override {
    visit(query_, Role::kQuery);
    if (key_) visit(*key_, Role::kKey);
    if (value_) visit(*value_, Role::kValue);
    HeadAttention::for_each_linear(visit);
  }

 private:
  HeadRow row_of(const LayerSpec& layer) const override {
    return {layer.attention()->heads, shape_of_heads(layer), rotary_offset(layer), key_.has_value()};
  }

  void project(const BlockPass& pass, const HeadRow& layout, const LinearRows& input) const override {
    float* row = pass.activations.query_key_value.data();
    LinearOutputs outputs;
    outputs.add({&query_, row, layout.size});
    if (key_) outputs.add({&*key_, row + layout.keys, layout.size});
    if (value_) outputs.add({&*value_, row + layout.values, layout.size});
    add_output_gate(outputs, pass.activations);
    pass.apply_linears(outputs.all(), input, pass.rows);
    if (value_ || !key_) return;
    for (std::size_t t = 0; t < pass.tokens; ++t, row += layout.size) {
      std::copy(row + layout.keys, row + layout.values, row + layout.values);
    }
  }

  kernels::KeyBias key_bias(const BlockPass& pass) const override {
    const bool added_last = !has_head_norms() && pass.layer.attention()->rope;
    if (!added_last || !key_ || key_->bias.empty()) return {};
    return {.values = key_->bias.data(), .rotation = pass.angles.rotation};
  }

  Linear query_;
  std::optional<Linear> key_;    ///< empty if the layer reads an earlier layer's keys and values
  std::optional<Linear> value_;  ///< empty also if the keys are the values
};

CacheShape shape_of_cache(const LayerSpec& layer) {
  return layer.attention()->keys_of ? CacheShape{} : shape_of_heads(layer);
}

constexpr std::array<RoleRow, 12> kRoles{{
    kQueryRow,
    {.role = Role::kKey,
     .shape = key_shape,
     .present = has_own_keys,
     .bias_flag = &BiasSpec::key,
     .reads = Role::kAttentionNorm},
    {.role = Role::kValue,
     .shape = value_shape,
     .present = [](const ModelSpec& spec,
                   const LayerSpec& layer) { return has_own_keys(spec, layer) && !layer.attention()->values_are_keys; },
     .bias_flag = &BiasSpec::value,
     .reads = Role::kAttentionNorm},
    kOutputGateRow,
    kQueryNormRow,
    kKeyNormRow,
    kSinkLogitsRow,
    kRelativeBiasRow,
    kDistanceRowsRow,
    distance_norm_row(Role::kDistanceRowsGain),
    distance_norm_row(Role::kDistanceRowsBias),
    kAttentionOutputRow,
}};

std::unique_ptr<const Mixer> assemble(const ModelSpec& spec, std::size_t layer, const BlockParts& parts) {
  return std::make_unique<Attention>(*spec.layers[layer].attention(), parts);
}

}  // namespace
}  // namespace attention

constinit const MixerKind kAttention = {.roles = attention::kRoles,
                                        .assemble = attention::assemble,
                                        .cache_shape = attention::shape_of_cache,
                                        .value_path = value_path_of_heads};

}  // namespace ballast::model
