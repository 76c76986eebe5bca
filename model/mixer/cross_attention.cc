// Attention of a decoder's text to an encoder's output, of which it makes its keys and values.
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "model/mixer/attention_kinds.h"
#include "model/mixer/head_attention.h"
#include "model/mixer/head_roles.h"
#include "model/mixer/sequence_state.h"

namespace ballast::model {

namespace cross_attention {
namespace {

CacheShape shape_of_source(const LayerSpec& layer) {
  const AttentionSpec& attention = *layer.attention();
  return {.kv_heads = attention.kv_heads, .key_size = attention.head_size, .value_size = attention.value_size};
}

class CrossAttention final : public HeadAttention {
 public:
  CrossAttention(const AttentionSpec& spec, const BlockParts& parts)
      : HeadAttention(spec, parts),
        query_(parts.linear({Role::kQuery})),
        key_(parts.linear({Role::kKey})),
        value_(parts.linear({Role::kValue})) {}

  void for_each_linear(const std::function<void(const Linear&, Role)>& visit) const override {
    visit(query_, Role::kQuery);
    visit(key_, Role::kKey);
    visit(value_, Role::kValue);
    HeadAttention::for_each_linear(visit);
  }

 private:
  HeadRow row_of(const LayerSpec& layer) const override {
    return {layer.attention()->heads, shape_of_source(layer), 0, /*own_cache=*/false};
  }

  void project(const BlockPass& pass, const HeadRow& layout, const LinearRows& input) const override {
    const LinearOutput queries[] = {{&query_, pass.activations.query_key_value.data(), layout.size}};
    pass.apply_linears(queries, input, pass.rows);
    make_keys(pass);
  }

  /// Makes the layer's keys and values of the source texts that it reads for the first time.
  void make_keys(const BlockPass& pass) const {
    std::vector<EncodedSource*> sources;
    std::vector<std::size_t> ends;
    for (const BatchSequence& sequence : pass.batch) {
      EncodedSource* source = sequence.state->source();
      if (source->has_keys(pass.state_layer) || std::ranges::find(sources, source) != sources.end()) continue;
      sources.push_back(source);
      ends.push_back((ends.empty() ? 0 : ends.back()) + source->tokens());
    }
    if (sources.empty()) return;
    BlockActivations& a = pass.activations;
    const std::size_t size = pass.spec.hidden_size;
    a.source_rows.grow(ends.back() * size);
    float* row = a.source_rows.data();
    for (const EncodedSource* source : sources) row = std::ranges::copy(source->rows(), row).out;
    const CacheShape shape = shape_of_source(pass.layer);
    const std::size_t keys = shape.kv_heads * shape.key_size;
    a.source_keys_values.grow(ends.back() * shape.size());
    float* made = a.source_keys_values.data();
    const LinearOutput outputs[] = {{&key_, made, shape.size()}, {&value_, made + keys, shape.size()}};
    pass.apply_linears(outputs, {a.source_rows.data(), size}, StepRows(ends));
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const float* first = made + (ends[i] - sources[i]->tokens()) * shape.size();
      sources[i]->set_keys(pass.state_layer, first, first + keys, shape.size());
    }
  }

  kernels::KeyValueView keys_of(const BlockPass& pass, const BatchSequence& sequence) const override {
    return sequence.state->source()->view(pass.state_layer);
  }

  bool is_causal(const BlockPass& /*pass*/) const override { return false; }

  kernels::KeyBias key_bias(const BlockPass& /*pass*/) const override { return {}; }

  Linear query_, key_, value_;
};

constexpr std::array<RoleRow, 4> kRoles{{
    kQueryRow,
    {.role = Role::kKey, .shape = key_shape, .bias_flag = &BiasSpec::key, .reads_source = true},
    {.role = Role::kValue, .shape = value_shape, .bias_flag = &BiasSpec::value, .reads_source = true},
    kAttentionOutputRow,
}};

std::unique_ptr<const Mixer> assemble(const ModelSpec& spec, std::size_t layer, const BlockParts& parts) {
  return std::make_unique<CrossAttention>(*spec.layers[layer].attention(), parts);
}

}  // namespace
}  // namespace cross_attention

constinit const MixerKind kCrossAttention = {.roles = cross_attention::kRoles,
                                             .assemble = cross_attention::assemble,
                                             .source_shape = cross_attention::shape_of_source,
                                             .value_path = value_path_of_heads};

}  // namespace ballast::model
