// Attention over INT8 caches, in integers: queries to INT8 per row, softmax weights times the values' scales to 8 bits
// per row and block (after SageAttention, arXiv:2410.02367, which has one scale for all rows). Scores, weights and sums
// between blocks stay F32. Tokens kept in F16 are multiplied in F32 and merged into their block.
#if defined(BALLAST_KERNELS_ATTENTION_INT8_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_ATTENTION_INT8_ATTENTION_INL_H_
#undef BALLAST_KERNELS_ATTENTION_INT8_ATTENTION_INL_H_
#else
#define BALLAST_KERNELS_ATTENTION_INT8_ATTENTION_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/attention/attention_task.h"
#include "kernels/attention/exp2-inl.h"
#include "kernels/attention/float_attention-inl.h"
#include "kernels/attention/head_rotation-inl.h"
#include "kernels/attention/int8_attention_tile-inl.h"
#include "kernels/attention/key_bias-inl.h"
#include "kernels/attention/key_value_rows.h"
#include "kernels/matrix/integer_rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

static_assert(kInt8TileRows <= kMostInt8TileRows);

/// Slots `base` + [begin, end) of one key head, from the start of a panel on, and the positions that they hold.
struct Int8Block {
  const CachedRows& keys;
  const CachedRows& values;
  std::size_t heads;
  std::size_t head;
  std::size_t base;
  std::size_t begin;
  std::size_t end;
  std::size_t first_position;  ///< in slot base + begin
  std::size_t key_size;
  std::size_t value_size;

  const std::uint8_t* key_codes() const { return static_cast<const std::uint8_t*>(codes(keys, key_size)); }
  const std::int8_t* value_codes() const { return static_cast<const std::int8_t*>(codes(values, value_size)); }
  const float* scales(const CachedRows& rows) const {
    return rows.scales + head * stored_slots(rows.type, rows.capacity) + base;
  }
  bool exact(std::size_t i) const { return keys.exact_rows[base + i] >= 0; }
  /// The F16 row that stands for the codes in a slot with exact(i).
  const std::uint16_t* exact_row(const CachedRows& rows, std::size_t i, std::size_t size) const {
    return rows.exact + (static_cast<std::size_t>(rows.exact_rows[base + i]) * heads + head) * size;
  }

 private:
  const void* codes(const CachedRows& rows, std::size_t size) const {
    const std::size_t slots = head * stored_slots(rows.type, rows.capacity) + base;
    return static_cast<const char*>(rows.data) + slots * stored_row_bytes(rows.type, rows.kind, size);
  }
};

/// Queries, rotated as the keys are, to codes. A row of zeros has scale 1: its scores are 0 whatever the scale.
HWY_INLINE void quantize_queries(std::size_t rows, std::size_t size, const AttentionScratch& scratch) {
  const std::size_t stride = stored_size(CacheType::kInt8, RowKind::kKeys, size);
  for (std::size_t row = 0; row < rows; ++row) {
    float* q = scratch.rotated;
    rotate_head(scratch.q + row * size, size, q);
    std::int8_t* codes = scratch.q_codes + row * stride;
    std::int32_t sum;
    const float scale = quantize_group(q, size, absolute_maximum(q, size), codes, sum);
    std::fill_n(codes + size, stride - size, std::int8_t{0});
    scratch.q_scales[row] = scale == 0.0F ? 1.0F : scale;
    scratch.q_starts[row] = -128 * sum;
  }
}

/// The exact tokens of a block decoded one after the other into scratch.panel and scratch.values; returns how many.
/// Comes with what the codes' weights are multiplied with: the values' scales, 0 for others.
HWY_INLINE std::size_t prepare_values(const Int8Block& block, const AttentionScratch& scratch) {
  std::fill_n(scratch.value_scales, kAttentionKeys, 0.0F);
  std::copy(block.scales(block.values) + block.begin, block.scales(block.values) + block.end,
            scratch.value_scales + block.begin);
  if (block.keys.exact == nullptr || block.keys.exact_rows == nullptr) return 0;
  std::size_t count = 0;
  for (std::size_t i = block.begin; i < block.end; ++i) {
    if (!block.exact(i)) continue;
    scratch.value_scales[i] = 0.0F;
    decode_values(block.exact_row(block.keys, i, block.key_size), FloatType::kF16, block.key_size,
                  scratch.panel + count * block.key_size);
    decode_values(block.exact_row(block.values, i, block.value_size), FloatType::kF16, block.value_size,
                  scratch.values + count * block.value_size);
    ++count;
  }
  return count;
}

/// Calls body(slot in the block, exact token's number) for every exact token.
template <class Body>
HWY_INLINE void for_exact_tokens(const Int8Block& block, std::size_t count, const Body& body) {
  for (std::size_t i = block.begin, number = 0; number < count; ++i) {
    if (block.exact(i)) body(i, number++);
  }
}

/// Scores of a tile of rows with the keys up to `keys`, without the rows' own scales, to scratch.scores.
HWY_INLINE void score_int8_tile(const Int8Block& block, std::size_t first_row, std::size_t rows, std::size_t keys,
                                const AttentionScratch& scratch) {
  const AttentionFloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  const std::size_t stride = stored_size(CacheType::kInt8, RowKind::kKeys, block.key_size);
  const std::uint8_t* codes = block.key_codes();
  const float* scales = block.scales(block.keys);
  for (std::size_t key = 0; key < keys; key += 4 * lanes) {
    const std::uint8_t* panel = codes + code_index(RowKind::kKeys, block.key_size, key, 0);
    const auto scale0 = hn::LoadU(df, scales + key);
    const auto scale1 = hn::LoadU(df, scales + key + lanes);
    const auto scale2 = hn::LoadU(df, scales + key + 2 * lanes);
    const auto scale3 = hn::LoadU(df, scales + key + 3 * lanes);
    float* scores = scratch.scores + key;
    multiply_quads_of<kInt8TileRows, 4>(rows, scratch.q_codes + first_row * stride, stride, panel, kPanelTokens * 4,
                                        stride / 4, scratch.q_starts + first_row,
                                        [&](std::size_t row, auto c0, auto c1, auto c2, auto c3) HWY_ATTR {
                                          float* dst = scores + row * kAttentionKeys;
                                          hn::StoreU(hn::Mul(hn::ConvertTo(df, c0), scale0), df, dst);
                                          hn::StoreU(hn::Mul(hn::ConvertTo(df, c1), scale1), df, dst + lanes);
                                          hn::StoreU(hn::Mul(hn::ConvertTo(df, c2), scale2), df, dst + 2 * lanes);
                                          hn::StoreU(hn::Mul(hn::ConvertTo(df, c3), scale3), df, dst + 3 * lanes);
                                        });
  }
}

/// Scores of exact tokens in place of those from codes, in the same unit.
HWY_INLINE void score_exact_tokens(const Int8Block& block, std::size_t exact, std::size_t first_row, std::size_t rows,
                                   const AttentionScratch& scratch) {
  const FloatTag df;
  for_exact_tokens(block, exact, [&](std::size_t slot, std::size_t number) HWY_ATTR {
    const float* key = scratch.panel + number * block.key_size;
    for (std::size_t row = 0; row < rows; ++row) {
      const float* q = scratch.q + (first_row + row) * block.key_size;
      auto sum = hn::Zero(df);
      for_vectors(block.key_size, [&](auto load, auto) HWY_ATTR { sum = hn::MulAdd(load(q), load(key), sum); });
      scratch.scores[row * kAttentionKeys + slot] = hn::ReduceSum(df, sum) / scratch.q_scales[first_row + row];
    }
  });
}

/// What turns a row of weights' codes into weights times value scales.
struct RowWeights {
  float factor;   ///< of the codes
  float rescale;  ///< of the sums so far
};

/// Scores, of which the row sees begin .. end, to weights' codes; `keys` is a multiple of 64. Leaves weights times
/// value scales in place of the scores.
HWY_INLINE RowWeights weigh_row(float* HWY_RESTRICT scores, const float* HWY_RESTRICT value_scales, std::size_t begin,
                                std::size_t end, std::size_t keys, float q_scale, float& maximum, float& total,
                                std::uint8_t* HWY_RESTRICT codes) {
  const AttentionFloatTag df;
  const hn::Rebind<std::uint8_t, AttentionIntTag> du8;
  const std::size_t lanes = hn::Lanes(df);
  std::fill(scores, scores + begin, -std::numeric_limits<float>::infinity());
  std::fill(scores + end, scores + keys, -std::numeric_limits<float>::infinity());
  auto max0 = hn::LoadU(df, scores);
  auto max1 = max0;
  for (std::size_t i = 0; i < keys; i += 2 * lanes) {
    max0 = hn::Max(max0, hn::LoadU(df, scores + i));
    max1 = hn::Max(max1, hn::LoadU(df, scores + i + lanes));
  }
  const float highest = hn::ReduceMax(df, hn::Max(max0, max1)) * q_scale;
  RowWeights result = {.factor = 0.0F, .rescale = 1.0F};
  if (highest > maximum) result.rescale = raise_maximum(highest, maximum);

  const auto scale = hn::Set(df, q_scale);
  const auto shift = hn::Set(df, -maximum);
  auto sum0 = hn::Zero(df), sum1 = sum0;
  auto most0 = hn::Zero(df), most1 = most0;
  const auto weigh = [&](std::size_t i, auto& sum, auto& most) HWY_ATTR {
    const auto weight = exp2_of<Exp2Accuracy::kWeight>(df, hn::MulAdd(hn::LoadU(df, scores + i), scale, shift));
    sum = hn::Add(sum, weight);
    const auto scaled = hn::Mul(weight, hn::LoadU(df, value_scales + i));
    most = hn::Max(most, scaled);
    hn::StoreU(scaled, df, scores + i);
  };
  for (std::size_t i = 0; i < keys; i += 2 * lanes) {
    weigh(i, sum0, most0);
    weigh(i + lanes, sum1, most1);
  }
  total = total * result.rescale + hn::ReduceSum(df, hn::Add(sum0, sum1));

  const float most = hn::ReduceMax(df, hn::Max(most0, most1));
  const float inverse = most < kSmallestMagnitude ? 0.0F : 255.0F / most;
  result.factor = most < kSmallestMagnitude ? 0.0F : most / 255.0F;
  const auto to_code = hn::Set(df, inverse);
  for (std::size_t i = 0; i < keys; i += lanes) {
    const auto code = hn::NearestInt(hn::Mul(hn::LoadU(df, scores + i), to_code));
    hn::StoreU(hn::DemoteTo(du8, code), du8, codes + i);
  }
  return result;
}

/// sums = sums * rescale + codes of weights . codes of values * factor, of one tile's rows.
HWY_INLINE void accumulate_int8_values(const Int8Block& block, std::size_t first_row, std::size_t rows,
                                       std::size_t keys, const RowWeights* weights, const AttentionScratch& scratch) {
  static constexpr std::int32_t kStarts[kMostInt8TileRows] = {};
  const AttentionFloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  const std::size_t size = scratch.rows.sum_size;
  const std::int8_t* codes = block.value_codes();
  float* sums = scratch.rows.sums + first_row * size;
  const auto add = [df, weights](std::size_t row, auto c, float* sum) HWY_ATTR {
    const auto scaled = hn::Mul(hn::ConvertTo(df, c), hn::Set(df, weights[row].factor));
    hn::StoreU(hn::MulAdd(hn::LoadU(df, sum), hn::Set(df, weights[row].rescale), scaled), df, sum);
  };
  std::size_t c = 0;
  for (; c + 4 * lanes <= size; c += 4 * lanes) {
    multiply_quads_of<kInt8TileRows, 4>(rows, scratch.weights, kAttentionKeys, codes + c * 4, size * 4, keys / 4,
                                        kStarts, [&](std::size_t row, auto c0, auto c1, auto c2, auto c3) HWY_ATTR {
                                          float* sum = sums + row * size + c;
                                          add(row, c0, sum);
                                          add(row, c1, sum + lanes);
                                          add(row, c2, sum + 2 * lanes);
                                          add(row, c3, sum + 3 * lanes);
                                        });
  }
  for (; c < size; c += lanes) {
    multiply_quads_of<kInt8TileRows, 1>(
        rows, scratch.weights, kAttentionKeys, codes + c * 4, size * 4, keys / 4, kStarts,
        [&](std::size_t row, auto c0, auto, auto, auto) HWY_ATTR { add(row, c0, sums + row * size + c); });
  }
}

/// One tile of rows, of which visible(row) sees part of the block; `bias` is null when keys have none.
template <class Visible>
HWY_INLINE void attend_int8_tile(const Int8Block& block, std::size_t exact, const KeyRotation* bias,
                                 std::size_t first_row, std::size_t rows, const Visible& visible,
                                 const AttentionScratch& scratch) {
  const AttentionRows& state = scratch.rows;
  const std::size_t keys =
      (visible(first_row + rows - 1).end + kPanelTokens - 1) / kPanelTokens * kPanelTokens;  // the last row sees most
  score_int8_tile(block, first_row, rows, keys, scratch);
  if (bias != nullptr) add_key_bias(*bias, first_row, rows, keys / kPanelTokens, block.key_size, scratch);
  score_exact_tokens(block, exact, first_row, rows, scratch);
  RowWeights weights[kInt8TileRows];
  HWY_ALIGN float exact_weights[kInt8TileRows * kAttentionKeys];
  for (std::size_t row = 0; row < rows; ++row) {
    const PositionRange seen = visible(first_row + row);
    float* scores = scratch.scores + row * kAttentionKeys;
    std::uint8_t* codes = scratch.weights + row * kAttentionKeys;
    if (seen.size() == 0) {
      std::fill_n(codes, keys, std::uint8_t{0});
      weights[row] = {.factor = 0.0F, .rescale = 1.0F};
      for (std::size_t i = 0; i < exact; ++i) exact_weights[row * kAttentionKeys + i] = 0.0F;
      continue;
    }
    const float q_scale = scratch.q_scales[first_row + row];
    if (block.first_position == 0 && seen.begin == block.begin) {
      state.first_score[first_row + row] = scores[block.begin] * q_scale;
    }
    for_exact_tokens(block, exact, [&](std::size_t slot, std::size_t number) {
      const bool sees = slot >= seen.begin && slot < seen.end;
      exact_weights[row * kAttentionKeys + number] =
          sees ? scores[slot] * q_scale : -std::numeric_limits<float>::infinity();
    });
    weights[row] = weigh_row(scores, scratch.value_scales, seen.begin, seen.end, keys, q_scale,
                             state.maximum[first_row + row], state.total[first_row + row], codes);
    for (std::size_t i = 0; i < exact; ++i) {
      float& weight = exact_weights[row * kAttentionKeys + i];
      weight = std::exp2(weight - state.maximum[first_row + row]);
    }
  }
  accumulate_int8_values(block, first_row, rows, keys, weights, scratch);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < exact; ++i) {
      const auto weight = hn::Set(FloatTag(), exact_weights[row * kAttentionKeys + i]);
      const float* value = scratch.values + i * block.value_size;
      float* sum = state.sums + (first_row + row) * state.sum_size;
      for_vectors(block.value_size,
                  [&](auto load, auto store) HWY_ATTR { store(hn::MulAdd(weight, load(value), load(sum)), sum); });
    }
  }
}

/// As attend_float_keys, for an INT8 cache.
template <class Visible>
HWY_INLINE void attend_int8_keys(const AttentionShape& shape, const AttentionTask& task, const AttentionPart& part,
                                 const PositionRange& range, const Visible& visible, const AttentionScratch& scratch) {
  const std::size_t group = shape.heads / shape.kv_heads;
  const std::size_t rows = task.queries * group;
  quantize_queries(rows, shape.head_size, scratch);
  const KeyBias& bias = task.sequence->kv.key_bias;
  const KeyRotation* rotation = bias.values == nullptr ? nullptr : bias.rotation;
  if (rotation != nullptr) prepare_key_bias(bias, task.kv_head, rows, shape.head_size, scratch);
  double reached = std::numeric_limits<double>::quiet_NaN();
  for (std::size_t key = range.begin, count = 0; key < range.end; key += count) {
    const std::size_t slot = key % part.keys.capacity;
    const std::size_t begin = slot % kPanelTokens;
    count = std::min({kAttentionKeys - begin, range.end - key, part.keys.capacity - slot});
    const Int8Block block = {.keys = part.keys,
                             .values = part.values,
                             .heads = shape.kv_heads,
                             .head = task.kv_head,
                             .base = slot - begin,
                             .begin = begin,
                             .end = begin + count,
                             .first_position = key,
                             .key_size = shape.head_size,
                             .value_size = shape.output_size()};
    const std::size_t exact = prepare_values(block, scratch);
    if (rotation != nullptr) {
      reached = prepare_panel_angles(*rotation, static_cast<double>(key) - static_cast<double>(begin), reached,
                                     (block.end + kPanelTokens - 1) / kPanelTokens, scratch.bias);
    }
    const auto visible_in_block = [&](std::size_t row) -> PositionRange {
      const PositionRange seen = visible(row / group);
      return {std::clamp(seen.begin, key, key + count) - key + begin,
              std::clamp(seen.end, key, key + count) - key + begin};
    };
    for (std::size_t row = 0; row < rows; row += kInt8TileRows) {
      attend_int8_tile(block, exact, rotation, row, std::min(kInt8TileRows, rows - row), visible_in_block, scratch);
    }
  }
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_ATTENTION_INT8_ATTENTION_INL_H_
