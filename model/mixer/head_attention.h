// The common part of all kinds of attention, after queries, keys and values have been computed.
#ifndef BALLAST_MODEL_MIXER_HEAD_ATTENTION_H_
#define BALLAST_MODEL_MIXER_HEAD_ATTENTION_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "ballast/spec.h"
#include "model/block/block_parts.h"
#include "model/block/block_pass.h"
#include "model/block/weights.h"
#include "model/cache/key_value_cache.h"
#include "model/mixer/distance_scores.h"
#include "model/mixer/mixer_kind.h"

namespace ballast::model {

/// The layout of a row of queries, keys and values as the cache stores them: queries of all heads, then keys, then
/// values, unless keys contain them.
struct HeadRow {
  /// Keys and queries, which have the same size, are rotated from `rotary_offset` on. If the layer reads another
  /// layer's cache, a row contains only queries.
  HeadRow(std::size_t query_heads, const CacheShape& shape, std::size_t rotary_offset, bool own_cache = true)
      : heads(query_heads),
        cache(shape),
        own_kv_heads(own_cache ? shape.kv_heads : 0),
        rotary(rotary_offset),
        keys(heads * cache.key_size),
        values(cache.values_in_keys ? keys : keys + own_kv_heads * cache.key_size),
        size(keys + (own_cache ? cache.size() : 0)) {}

  std::size_t heads;
  CacheShape cache;          ///< of the keys and values that are read
  std::size_t own_kv_heads;  ///< number of heads with keys and values in the row: the cache's, or none
  std::size_t rotary;        ///< offset of a head's rotated channels
  std::size_t keys;
  std::size_t values;
  std::size_t size;
};

/// The common part of plain and latent attention: norms and rotation of queries and keys, the cache, the output gate
/// and the output projection.
class HeadAttention : public Mixer {
 public:
  std::size_t forward(const BlockPass& pass, const LinearRows& input, float* hidden) const final;
  void for_each_linear(const std::function<void(const Linear&, Role)>& visit) const override;

 protected:
  HeadAttention(const AttentionSpec& spec, const BlockParts& parts);

  virtual HeadRow row_of(const LayerSpec& layer) const = 0;

  /// Projects the input to queries, and to keys and values if a row has any, neither normalized nor rotated, in
  /// activations.query_key_value, and to the output gate in activations.output_gate.
  virtual void project(const BlockPass& pass, const HeadRow& layout, const LinearRows& input) const = 0;

  /// Returns the keys and values that a sequence's tokens attend to.
  virtual kernels::KeyValueView keys_of(const BlockPass& pass, const BatchSequence& sequence) const;

  /// Returns whether they attend only up to their own positions.
  virtual bool is_causal(const BlockPass& pass) const { return pass.causal; }

  /// Returns values of the heads, dense, for `rows` rows of activations.attention_output, which are sums of the cached
  /// values.
  virtual float* values_of_heads(const BlockPass& pass, std::size_t rows) const;

  /// Returns the bias of all keys, which INT8 caches leave out because only its rotation differs between keys.
  virtual kernels::KeyBias key_bias(const BlockPass& pass) const = 0;

  /// Adds the output gate, if there is one, as the last linear that reads the block's input.
  void add_output_gate(LinearOutputs& outputs, BlockActivations& activations) const;

  /// Sets the scores by distance of a DisentangledSpec from the linears that project its rows.
  void set_distance_scores(const AttentionSpec& spec, const BlockParts& parts, const Linear& query, const Linear& key);

  bool has_head_norms() const { return !query_norm_.gain.empty(); }

 private:
  void normalize_heads(const BlockPass& pass, const HeadRow& layout) const;
  void norm_and_rotate_heads(const BlockPass& pass, const HeadRow& layout) const;
  void append(const BlockPass& pass, const HeadRow& layout) const;
  std::size_t attend(const BlockPass& pass, const HeadRow& layout) const;

  Norm query_norm_, key_norm_;        ///< without a gain: no norm
  std::vector<float> sink_logits_;    ///< empty: none
  std::vector<float> distance_bias_;  ///< as in kernels::DistanceBias; empty: none
  std::size_t bias_reach_ = 0;
  std::vector<float> slopes_;  ///< ALiBi's; empty: none
  std::optional<DistanceScores> distance_scores_;
  std::optional<Linear> output_gate_;
  Linear output_;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_MIXER_HEAD_ATTENTION_H_
