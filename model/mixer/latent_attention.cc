// Attention whose queries, keys and values are computed from latent vectors: LatentAttentionSpec.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/matrix/head_matrices.h"
#include "model/mixer/attention_kinds.h"
#include "model/mixer/head_attention.h"
#include "model/mixer/head_roles.h"

namespace ballast::model {

namespace latent_attention {
namespace {

using kernels::FloatType;
using kernels::HeadMatrices;

/// Returns the narrowest type that holds all values of a plain matrix: parts of a fused one are read as F32, for any
/// stored type.
FloatType exact_type(const Linear& linear, FloatType type) {
  bool bf16 = type == FloatType::kF32, f16 = bf16;
  std::vector<float> row(linear.cols());
  std::vector<std::uint16_t> half(row.size());
  std::vector<float> back(row.size());
  const auto keeps = [&](FloatType narrow) {
    kernels::from_float(row.data(), row.size(), narrow, half.data());
    kernels::to_float(half.data(), narrow, row.size(), back.data());
    return row == back;
  };
  for (std::size_t r = 0; r < linear.rows() && (bf16 || f16); ++r) {
    decode_row(linear, r, row.data());
    bf16 = bf16 && keeps(FloatType::kBF16);
    f16 = f16 && keeps(FloatType::kF16);
  }
  if (bf16) return FloatType::kBF16;
  return f16 ? FloatType::kF16 : type;
}

/// Converts a linear over the latent vector to one matrix per head: floats keep their type, codes are decoded to F16
/// with a power of two for each head, within 2^-12, a thirtieth of half a step of INT8. The linear keeps its name,
/// sizes and bias.
HeadMatrices take_heads(Linear& linear, const HeadMatrices::Shape& shape) {
  const auto* plain = std::get_if<FloatMatrixHolder>(&linear.weights);
  const FloatType type = plain == nullptr ? FloatType::kF16 : exact_type(linear, plain->matrix.type);
  HeadMatrices heads(shape, {.type = type, .scaled = plain == nullptr},
                     [&](std::size_t row, float* dst) { decode_row(linear, row, dst); });
  FloatMatrixHolder sizes;
  sizes.matrix = {.data = nullptr, .type = type, .rows = linear.rows(), .cols = linear.cols()};
  linear.weights = std::move(sizes);
  linear.activations.reset();
  return heads;
}

/// The cache holds what all heads share: a token's normalized latent vector c, and after it the rotated part of its
/// keys. Scores and sums of a head's keys W_k c and values W_v c are computed on latent vectors, q.(W_k c) = (W_k^T
/// q).c and sum_j a_j W_v c_j = W_v sum_j a_j c_j, so that W_k multiplies each query once and W_v each output once, for
/// any length of the sequence. This is done for all tokens, also those of a prompt: keys and values expanded for a
/// prompt would be rounded differently, and a token's result would depend on how many came with it.
class LatentAttention final : public HeadAttention {
 public:
  LatentAttention(const LatentAttentionSpec& spec, const BlockParts& parts)
      : HeadAttention(spec.attention, parts),
        key_value_down_(parts.linear({Role::kKeyValueDown})),
        key_value_down_norm_(parts.norm(Role::kKeyValueDownNorm)),
        key_position_(parts.linear({Role::kKeyPosition})),
        query_(parts.linear({Role::kQuery})),
        key_(parts.linear({Role::kKey})),
        value_(parts.linear({Role::kValue})),
        key_heads_(take_heads(key_, {.heads = spec.attention.heads,
                                     .inputs = spec.attention.head_size - rotary_size(spec.attention),
                                     .outputs = spec.key_value_rank,
                                     .rows = HeadMatrices::Rows::kInputs})),
        value_heads_(take_heads(value_, {.heads = spec.attention.heads,
                                         .inputs = spec.key_value_rank,
                                         .outputs = spec.attention.value_size,
                                         .rows = HeadMatrices::Rows::kOutputs})) {
    if (spec.query_rank == 0) return;
    query_down_ = parts.linear({Role::kQueryDown});
    query_down_norm_ = parts.norm(Role::kQueryDownNorm);
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

 private:
  HeadRow row_of(const LayerSpec& layer) const override {
    return {layer.attention()->heads, cache_shape(layer), layer.latent()->key_value_rank};
  }

  void project(const BlockPass& pass, const HeadRow& layout, const LinearRows& input) const override {
    const LatentAttentionSpec& sizes = *pass.layer.latent();
    BlockActivations& a = pass.activations;
    const std::size_t m = pass.tokens;
    a.query_latent.grow(m * sizes.query_rank);
    a.head_queries.grow(m * query_.rows());
    a.key_value_latent.grow(m * sizes.key_value_rank);
    a.key_position.grow(m * rotary_size(sizes.attention));
    project_down(pass, input);
    if (query_down_) {
      query_down_norm_.apply(a.query_latent.data(), m, a.query_latent.data());
      const LinearOutput query[] = {{&query_, a.head_queries.data(), query_.rows()}};
      pass.apply_linears(query, {a.query_latent.data(), sizes.query_rank}, pass.rows);
    }
    key_value_down_norm_.apply(a.key_value_latent.data(), m, a.key_value_latent.data());
    if (pass.options.record_inputs) {
      const Linear* const readers[] = {&key_, &value_};
      pass.record(readers, a.key_value_latent.data(), pass.rows);
    }
    join_rows(pass, layout);
  }

  /// Projects the input to the latent vectors, or directly to queries if these have no latent vector.
  void project_down(const BlockPass& pass, const LinearRows& input) const {
    const LatentAttentionSpec& sizes = *pass.layer.latent();
    BlockActivations& a = pass.activations;
    LinearOutputs down;
    if (query_down_) {
      down.add({&*query_down_, a.query_latent.data(), sizes.query_rank});
    } else {
      down.add({&query_, a.head_queries.data(), query_.rows()});
    }
    down.add({&key_value_down_, a.key_value_latent.data(), sizes.key_value_rank});
    down.add({&key_position_, a.key_position.data(), rotary_size(sizes.attention)});
    add_output_gate(down, a);
    pass.apply_linears(down.all(), input, pass.rows);
  }

  /// Moves queries, which replace their latent vectors, and the latent vectors into rows; each is followed by the part
  /// that is rotated later. A bias of the keys would add the same to all scores of a query and is left out.
  void join_rows(const BlockPass& pass, const HeadRow& layout) const {
    const BlockActivations& a = pass.activations;
    const std::size_t heads = layout.heads, rank = layout.cache.value_size, key_size = layout.cache.key_size;
    const std::size_t rotary = key_size - rank;
    const std::size_t plain = key_heads_.shape().inputs;
    const std::size_t queries = query_.rows(), head_size = plain + rotary;
    float* rows = pass.activations.query_key_value.data();
    key_heads_.multiply({a.head_queries.data(), queries, head_size}, pass.tokens, nullptr,
                        {rows, layout.size, key_size});
    for (std::size_t i = 0; i < pass.tokens; ++i) {
      float* row = rows + i * layout.size;
      for (std::size_t head = 0; head < heads; ++head) {
        std::copy_n(a.head_queries.data() + i * queries + head * head_size + plain, rotary,
                    row + head * key_size + rank);
      }
      std::copy_n(a.key_value_latent.data() + i * rank, rank, row + layout.keys);
      std::copy_n(a.key_position.data() + i * rotary, rotary, row + layout.keys + rank);
    }
  }

  float* values_of_heads(const BlockPass& pass, std::size_t rows) const override {
    BlockActivations& a = pass.activations;
    const std::size_t heads = value_heads_.shape().heads, rank = value_heads_.shape().inputs;
    const std::size_t value_size = value_heads_.shape().outputs;
    a.head_values.grow(rows * heads * value_size);
    value_heads_.multiply({a.attention_output.data(), heads * rank, rank}, rows,
                          value_.bias.empty() ? nullptr : value_.bias.data(),
                          {a.head_values.data(), heads * value_size, value_size});
    return a.head_values.data();
  }

  kernels::KeyBias key_bias(const BlockPass& /*pass*/) const override { return {}; }

  std::optional<Linear> query_down_;
  Norm query_down_norm_;  ///< without a gain if queries have no latent vector
  Linear key_value_down_;
  Norm key_value_down_norm_;
  Linear key_position_;
  Linear query_;
  Linear key_, value_;  ///< their values are in the next two members
  HeadMatrices key_heads_, value_heads_;
};

CacheShape shape_of_latent_cache(const LayerSpec& layer) {
  const LatentAttentionSpec& sizes = *layer.latent();
  return {.kv_heads = 1,
          .key_size = sizes.key_value_rank + rotary_size(sizes.attention),
          .value_size = sizes.key_value_rank,
          .window = sizes.attention.window,
          .values_in_keys = true};
}

bool has_query_latent(const ModelSpec& /*spec*/, const LayerSpec& layer) {
  return layer.latent()->query_rank > 0;
}

NormSpec latent_norm(const ModelSpec& spec, const LayerSpec& layer) {
  return {.kind = NormSpec::Kind::kRms,
          .epsilon = layer.latent()->epsilon,
          .bias = false,
          .gain_offset = spec.norm.gain_offset};
}

FoldLegality latent_norm_reader(const ModelSpec& /*spec*/, const LayerSpec& /*layer*/) {
  return {true, "only linears read the latent vector"};
}

const char* latent_norm_follows(const LayerSpec& /*layer*/) {
  return "the latent vector's norm follows";
}

constexpr std::array<RoleRow, 10> kRoles{{
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
     .norm = latent_norm,
     .read_by_linears_only = latent_norm_reader},
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
     .norm = latent_norm,
     .read_by_linears_only = latent_norm_reader},
    {.role = Role::kKey,
     .shape =
         [](const ModelSpec&, const LayerSpec& layer) {
           return MatrixShape{layer.attention()->kv_heads * rotary_offset(layer), layer.latent()->key_value_rank};
         },
     .bias_flag = &BiasSpec::key,
     .reads = Role::kKeyValueDownNorm,
     .copied_by_mixer = true},
    {.role = Role::kValue,
     .shape =
         [](const ModelSpec&, const LayerSpec& layer) {
           return MatrixShape{layer.attention()->kv_heads * layer.attention()->value_size,
                              layer.latent()->key_value_rank};
         },
     .bias_flag = &BiasSpec::value,
     .reads = Role::kKeyValueDownNorm,
     .copied_by_mixer = true},
    kAttentionOutputRow,
}};

std::unique_ptr<const Mixer> assemble(const ModelSpec& spec, std::size_t layer, const BlockParts& parts) {
  return std::make_unique<LatentAttention>(*spec.layers[layer].latent(), parts);
}

}  // namespace
}  // namespace latent_attention

constinit const MixerKind kLatentAttention = {.roles = latent_attention::kRoles,
                                              .assemble = latent_attention::assemble,
                                              .cache_shape = latent_attention::shape_of_latent_cache,
                                              .value_path = value_path_of_heads};

}  // namespace ballast::model
