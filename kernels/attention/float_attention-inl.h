// Attention over float caches: blocks of keys and values decoded to F32, F32 products.
#if defined(BALLAST_KERNELS_ATTENTION_FLOAT_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_ATTENTION_FLOAT_ATTENTION_INL_H_
#undef BALLAST_KERNELS_ATTENTION_FLOAT_ATTENTION_INL_H_
#else
#define BALLAST_KERNELS_ATTENTION_FLOAT_ATTENTION_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>

#include "kernels/attention/attention_task.h"
#include "kernels/attention/exp2-inl.h"
#include "kernels/attention/key_value_pages.h"
#include "kernels/exp-inl.h"
#include "kernels/matrix/float_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// Computes scores of `rows` queries with a block of keys.
HWY_INLINE void score_float_block(const AttentionBlock& block, std::size_t rows, const AttentionScratch& scratch) {
  const FloatTag df;
  const std::size_t width = panel_rows();
  const std::size_t size = block.layout.size(RowKind::kKeys);
  const FloatType type = float_type(block.layout.type());
  for (std::size_t key = 0; key < block.count(); key += width) {
    const std::size_t wide = HWY_MIN(width, block.count() - key);
    float* scores = scratch.scores + key;
    const std::byte* keys = block.rows(RowKind::kKeys) + (block.begin + key) * block.layout.row_bytes(RowKind::kKeys);
    decode_panel(keys, type, size, wide, size, scratch.panel);
    multiply_panel(scratch.q, rows, size, scratch.panel, width, size, [&](std::size_t row, auto c0, auto c1) HWY_ATTR {
      store_pair(df, c0, c1, wide, scores + row * kAttentionKeys);
    });
  }
}

/// Replaces scores x by limit tanh(x / limit), for a limit above 0 in their unit.
HWY_INLINE void limit_scores(float limit, std::size_t count, float* scores) {
  const FloatTag df;
  const auto one = hn::Set(df, 1.0F);
  const auto most = hn::Set(df, limit), stretch = hn::Set(df, 2.0F / limit);
  for_vectors(count, [&](auto load, auto store) HWY_ATTR {
    const auto power = exp_of(df, hn::Mul(load(scores), stretch));
    store(hn::Mul(most, hn::Div(hn::Sub(power, one), hn::Add(power, one))), scores);
  });
}

/// Adds a head's biases by distance, in natural units, to the scores of a query at `query` with keys at `keys`.
HWY_INLINE void add_distance_bias(const DistanceBias& bias, std::size_t head, std::size_t query,
                                  const PositionRange& keys, float* scores) {
  const FloatTag df;
  const auto unit = hn::Set(df, std::numbers::log2e_v<float>);
  const float* values = bias.values + head * bias.size();
  const auto add_same = [&](std::size_t count, float value) HWY_ATTR {
    const auto same = hn::Set(df, value);
    for_vectors(count, [&](auto load, auto store) HWY_ATTR { store(hn::MulAdd(same, unit, load(scores)), scores); });
    scores += count;
  };
  const PositionRange reached = {query - std::min(query, bias.reach), query + bias.reach + 1};
  const PositionRange near = intersection(reached, keys);
  add_same(near.begin - keys.begin, values[0]);
  if (near.size() != 0) {
    const float* own = values + (near.begin + bias.reach - query);
    for_vectors(near.size(),
                [&](auto load, auto store) HWY_ATTR { store(hn::MulAdd(load(own), unit, load(scores)), scores); });
    scores += near.size();
  }
  add_same(keys.end - near.end, values[bias.size() - 1]);
}

/// Subtracts a slope, in natural units, for each position between a query at `query` and keys at `keys`.
HWY_INLINE void subtract_slope(float slope, std::size_t query, const PositionRange& keys, float* scores) {
  const FloatTag df;
  const auto factor = hn::Set(df, -slope * std::numbers::log2e_v<float>);
  const auto step = hn::Set(df, static_cast<float>(hn::Lanes(df)));
  auto distance = hn::Iota(df, static_cast<float>(keys.begin) - static_cast<float>(query));
  for_vectors(keys.size(), [&](auto load, auto store) HWY_ATTR {
    store(hn::MulAdd(hn::Abs(distance), factor, load(scores)), scores);
    distance = hn::Add(distance, step);
  });
}

/// Adds a head's biases of a query, in natural units, to its scores with keys at `keys`.
HWY_INLINE void add_score_bias(const AttentionQuery& query, std::size_t head, const PositionRange& keys,
                               float* scores) {
  const FloatTag df;
  const auto unit = hn::Set(df, std::numbers::log2e_v<float>);
  const AttentionSequence& sequence = *query.sequence;
  const float* own =
      sequence.score_bias + head * sequence.score_bias_stride + query.index * sequence.kv.length + keys.begin;
  for_vectors(keys.size(),
              [&](auto load, auto store) HWY_ATTR { store(hn::MulAdd(load(own), unit, load(scores)), scores); });
}

/// Returns the factor on a row's previous sums and total when its maximum rises.
HWY_INLINE float raise_maximum(float new_maximum, float& maximum) {
  constexpr float kToZero = -150;  // 2^x is 0 from here on; std::exp2 would be slow
  const float rise = maximum - new_maximum;
  maximum = new_maximum;
  return rise > kToZero ? std::exp2(rise) : 0.0F;
}

/// Computes softmax weights of `valid` scores in place, zeros up to `count`; updates the row's maximum and total.
HWY_INLINE void softmax_block(float* HWY_RESTRICT scores, std::size_t valid, std::size_t count, float& maximum,
                              float& total, float& rescale) {
  const FloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  rescale = 1.0F;
  if (valid == 0) {
    std::fill_n(scores, count, 0.0F);
    return;
  }
  const auto lowest = hn::Set(df, -std::numeric_limits<float>::infinity());
  auto max = hn::Set(df, maximum);
  std::size_t i = 0;
  for (; i + lanes <= valid; i += lanes) max = hn::Max(max, hn::LoadU(df, scores + i));
  if (i < valid) {
    max = hn::Max(max, hn::IfThenElse(hn::FirstN(df, valid - i), hn::LoadN(df, scores + i, valid - i), lowest));
  }
  rescale = raise_maximum(hn::ReduceMax(df, max), maximum);
  const auto weight_of = [df, shift = maximum](auto score)
                             HWY_ATTR { return exp2_of<Exp2Accuracy::kFloat>(df, hn::Sub(score, hn::Set(df, shift))); };
  auto sum = hn::Zero(df);
  for (i = 0; i + lanes <= valid; i += lanes) {
    const auto weight = weight_of(hn::LoadU(df, scores + i));
    sum = hn::Add(sum, weight);
    hn::StoreU(weight, df, scores + i);
  }
  if (i < valid) {
    const std::size_t left = valid - i;
    const auto weight = hn::IfThenElseZero(hn::FirstN(df, left), weight_of(hn::LoadN(df, scores + i, left)));
    sum = hn::Add(sum, weight);
    hn::StoreN(weight, df, scores + i, left);
  }
  std::fill_n(scores + valid, count - valid, 0.0F);
  total = total * rescale + hn::ReduceSum(df, sum);
}

/// Decodes the block's values to F32, [count][size].
HWY_INLINE void decode_block_values(const AttentionBlock& block, float* dst) {
  const std::size_t row_bytes = block.layout.row_bytes(RowKind::kValues);
  decode_values(block.rows(RowKind::kValues) + block.begin * row_bytes, float_type(block.layout.type()),
                block.count() * block.layout.size(RowKind::kValues), dst);
}

/// Computes sums = sums * rescale + weights . values.
HWY_INLINE void accumulate_float_values(const AttentionBlock& block, std::size_t rows,
                                        const AttentionScratch& scratch) {
  const FloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  const std::size_t width = panel_rows();
  const std::size_t size = block.layout.size(RowKind::kValues);
  decode_block_values(block, scratch.values);
  for (std::size_t c = 0; c < size; c += width) {
    const std::size_t wide = HWY_MIN(width, size - c);
    float* sums = scratch.rows.sums + c;
    multiply_panel(scratch.scores, rows, kAttentionKeys, scratch.values + c, size, block.count(),
                   [&](std::size_t row, auto c0, auto c1) HWY_ATTR {
                     const auto rescale = hn::Set(df, scratch.rescale[row]);
                     float* sum = sums + row * scratch.rows.sum_size;
                     store_pair(df, hn::MulAdd(load_or_zero(df, sum, 0, wide), rescale, c0),
                                hn::MulAdd(load_or_zero(df, sum, lanes, wide), rescale, c1), wide, sum);
                   });
  }
}

/// Adds a block to the rows' running softmax; a row attends to visible(row), a part of the block's positions.
/// add_bias(row, scores) adds to its scores with the block's keys. `limit` as in score_limit.
template <class Visible, class AddBias>
HWY_INLINE void attend_float_block(const AttentionBlock& block, float limit, std::size_t rows, const Visible& visible,
                                   const AddBias& add_bias, const AttentionScratch& scratch) {
  score_float_block(block, rows, scratch);
  const std::size_t first = block.first_position + block.begin;
  for (std::size_t row = 0; row < rows; ++row) {
    const PositionRange seen = visible(row);
    float* scores = scratch.scores + row * kAttentionKeys;
    add_bias(row, scores);
    if (limit > 0.0F) limit_scores(limit, block.count(), scores);
    if (seen.begin == 0 && seen.end != 0) scratch.rows.first_score[row] = scores[0];
    std::fill_n(scores, seen.begin - first, 0.0F);
    softmax_block(scores + (seen.begin - first), seen.size(), block.end + block.first_position - seen.begin,
                  scratch.rows.maximum[row], scratch.rows.total[row], scratch.rescale[row]);
  }
  accumulate_float_values(block, rows, scratch);
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_ATTENTION_FLOAT_ATTENTION_INL_H_
