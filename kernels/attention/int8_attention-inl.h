// Attention over INT8 caches, in integers: queries to INT8 per row, softmax weights times the values' scales to 8 bits
// per row and block (after SageAttention, arXiv:2410.02367, which has one scale for all rows). Scores, weights and sums
// between blocks stay F32. FP16 tokens are multiplied in F32 and merged into their block.
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
#include "kernels/attention/key_value_pages.h"
#include "kernels/attention/read_ahead.h"
#include "kernels/matrix/integer_rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

static_assert(kInt8TileRows <= kMostInt8TileRows);

/// Quantizes a part of a query, rotated as the keys are, with zeros up to a multiple of four; returns its scale.
HWY_INLINE float quantize_query(const float* src, std::size_t size, float* rotated, std::int8_t* codes,
                                std::int32_t& start) {
  rotate_head(src, size, rotated);
  std::int32_t sum;
  const float scale = quantize_group(rotated, size, absolute_maximum(rotated, size), codes, sum);
  std::fill(codes + size, codes + stored_size(CacheType::kInt8, RowKind::kKeys, size), std::int8_t{0});
  start = -128 * sum;
  return scale;
}

/// Quantizes queries. A row of zeros has scale 1: its scores are 0 with any scale.
HWY_INLINE void quantize_queries(const PageLayout& layout, std::size_t rows, const AttentionScratch& scratch) {
  const std::size_t size = layout.size(RowKind::kKeys), values = layout.size(RowKind::kValues);
  for (std::size_t row = 0; row < rows; ++row) {
    const float* q = scratch.q + row * size;
    std::int8_t* codes = scratch.q_codes + row * query_code_stride(size);
    if (!layout.values_in_keys()) {
      const float scale = quantize_query(q, size, scratch.rotated, codes, scratch.q_starts[row]);
      scratch.q_scales[row] = scale == 0.0F ? 1.0F : scale;
      continue;
    }
    const float of_values = quantize_query(q, values, scratch.rotated, codes, scratch.q_starts[row]);
    const float of_others = quantize_query(q + values, size - values, scratch.rotated, codes + layout.others_at(),
                                           scratch.q_parts.others_starts[row]);
    const float larger = std::max(of_values, of_others);
    scratch.q_scales[row] = larger == 0.0F ? 1.0F : larger;
    scratch.q_parts.of_values[row] = of_values / scratch.q_scales[row];
    scratch.q_parts.of_others[row] = of_others / scratch.q_scales[row];
  }
}

/// Decodes the FP16 tokens of a block one after the other into scratch.panel and scratch.values, and stores their slots
/// in scratch.fp16_slots; returns their number. Also stores the factors on the codes' weights: the values' scales, 0
/// for FP16 tokens.
HWY_INLINE std::size_t prepare_values(const AttentionBlock& block, const AttentionScratch& scratch) {
  const float* scales = block.scales(RowKind::kValues);
  std::fill_n(scratch.value_scales, kAttentionKeys, 0.0F);
  std::copy(scales + block.begin, scales + block.end, scratch.value_scales + block.begin);
  if (block.page.fp16_rows == nullptr) return 0;
  const std::size_t key_size = block.layout.size(RowKind::kKeys), value_size = block.layout.size(RowKind::kValues);
  std::size_t count = 0;
  for (std::size_t slot = block.begin; slot < block.end; ++slot) {
    if (block.fp16_number(slot) == PageLayout::kNoFp16Row) continue;
    scratch.value_scales[slot] = 0.0F;
    decode_values(block.fp16_values(RowKind::kKeys, slot), FloatType::kF16, key_size, scratch.panel + count * key_size);
    float* values = scratch.values + count * value_size;
    if (block.layout.values_in_keys()) {  // the codes are of rotated values, and so are the sums
      rotate_head(scratch.panel + count * key_size, value_size, values);
    } else {
      decode_values(block.fp16_values(RowKind::kValues, slot), FloatType::kF16, value_size, values);
    }
    scratch.fp16_slots[count++] = static_cast<std::uint8_t>(slot);
  }
  return count;
}

/// Copies the codes of values that are part of the keys to [slots of the block / 4][sum_size][4].
HWY_INLINE void transpose_value_codes(const AttentionBlock& block, const AttentionScratch& scratch) {
  HWY_ALIGN static constexpr std::uint8_t kTransposed[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  const hn::FixedTag<std::uint8_t, 16> du8;
  const auto order = hn::Load(du8, kTransposed);
  const auto offset = hn::Set(du8, 128);
  const std::size_t size = scratch.rows.sum_size;
  const std::size_t quads = block.layout.others_at() / 4;
  auto* dst = reinterpret_cast<std::uint8_t*>(scratch.value_codes);
  for (std::size_t slot = block.begin / kPanelTokens * kPanelTokens; slot < block.end; slot += 4) {
    const std::uint8_t* src = block.key_codes() + code_index(RowKind::kKeys, block.layout.key_codes(), slot, 0);
    std::uint8_t* four = dst + slot * size;
    for (std::size_t quad = 0; quad < quads; ++quad) {
      const auto codes = hn::LoadU(du8, src + quad * kPanelTokens * 4);
      hn::StoreU(hn::Xor(hn::TableLookupBytes(codes, order), offset), du8, four + quad * 16);
    }
    std::fill(four + quads * 16, four + size * 4, std::uint8_t{0});
  }
}

/// Computes the scores of a tile with a range of keys, whole panels: products of `quads` fours of the rows' codes and
/// the keys' from `first_quad` on, times the keys' scales. Calls store(row, score, dst).
template <class Dots, class Store>
HWY_INLINE void score_int8_part(const AttentionBlock& block, std::size_t first_row, std::size_t rows,
                                const PositionRange& keys, std::size_t first_quad, std::size_t quads,
                                const float* scales, const std::int32_t* starts, const AttentionScratch& scratch,
                                const Store& store) {
  const AttentionFloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  const std::size_t stride = query_code_stride(block.layout.size(RowKind::kKeys));
  const std::int8_t* q = scratch.q_codes + first_row * stride + first_quad * 4;
  for (std::size_t key = keys.begin; key < keys.end; key += 4 * lanes) {
    const std::uint8_t* panel =
        block.key_codes() + code_index(RowKind::kKeys, block.layout.key_codes(), key, first_quad * 4);
    const auto scale0 = hn::LoadU(df, scales + key);
    const auto scale1 = hn::LoadU(df, scales + key + lanes);
    const auto scale2 = hn::LoadU(df, scales + key + 2 * lanes);
    const auto scale3 = hn::LoadU(df, scales + key + 3 * lanes);
    float* scores = scratch.scores + key;
    multiply_quads_of<Dots, kInt8TileRows, 4>(rows, q, stride, panel, kPanelTokens * 4, quads, starts + first_row,
                                              [&](std::size_t row, auto c0, auto c1, auto c2, auto c3) HWY_ATTR {
                                                float* dst = scores + row * kAttentionKeys;
                                                store(row, hn::Mul(hn::ConvertTo(df, c0), scale0), dst);
                                                store(row, hn::Mul(hn::ConvertTo(df, c1), scale1), dst + lanes);
                                                store(row, hn::Mul(hn::ConvertTo(df, c2), scale2), dst + 2 * lanes);
                                                store(row, hn::Mul(hn::ConvertTo(df, c3), scale3), dst + 3 * lanes);
                                              });
  }
}

/// Computes scores of a tile of rows with a range of keys, whole panels, without the rows' own scales, to
/// scratch.scores.
template <class Dots>
HWY_INLINE void score_int8_tile(const AttentionBlock& block, std::size_t first_row, std::size_t rows,
                                const PositionRange& keys, const AttentionScratch& scratch) {
  const AttentionFloatTag df;
  const PageLayout& layout = block.layout;
  const std::size_t quads = layout.key_codes() / 4;
  if (!layout.values_in_keys()) {
    score_int8_part<Dots>(block, first_row, rows, keys, 0, quads, block.scales(RowKind::kKeys), scratch.q_starts,
                          scratch, [df](std::size_t, auto score, float* dst) HWY_ATTR { hn::StoreU(score, df, dst); });
    return;
  }
  const std::size_t of_values = layout.others_at() / 4;
  const float* value_factors = scratch.q_parts.of_values + first_row;
  const float* other_factors = scratch.q_parts.of_others + first_row;
  score_int8_part<Dots>(block, first_row, rows, keys, 0, of_values, block.scales(RowKind::kValues), scratch.q_starts,
                        scratch, [df, value_factors](std::size_t row, auto score, float* dst) HWY_ATTR {
                          hn::StoreU(hn::Mul(score, hn::Set(df, value_factors[row])), df, dst);
                        });
  score_int8_part<Dots>(block, first_row, rows, keys, of_values, quads - of_values, block.scales(RowKind::kKeys),
                        scratch.q_parts.others_starts, scratch,
                        [df, other_factors](std::size_t row, auto score, float* dst) HWY_ATTR {
                          hn::StoreU(hn::MulAdd(score, hn::Set(df, other_factors[row]), hn::LoadU(df, dst)), df, dst);
                        });
}

/// Replaces the scores of FP16 tokens, in the same unit.
HWY_INLINE void score_fp16_tokens(const AttentionBlock& block, std::size_t fp16, std::size_t first_row,
                                  std::size_t rows, const AttentionScratch& scratch) {
  const FloatTag df;
  const std::size_t size = block.layout.size(RowKind::kKeys);
  for (std::size_t i = 0; i < fp16; ++i) {
    const float* key = scratch.panel + i * size;
    for (std::size_t row = 0; row < rows; ++row) {
      const float* q = scratch.q + (first_row + row) * size;
      auto sum = hn::Zero(df);
      for_vectors(size, [&](auto load, auto) HWY_ATTR { sum = hn::MulAdd(load(q), load(key), sum); });
      scratch.scores[row * kAttentionKeys + scratch.fp16_slots[i]] =
          hn::ReduceSum(df, sum) / scratch.q_scales[first_row + row];
    }
  }
}

/// The factors that turn a row of weights' codes into weights times value scales.
struct RowWeights {
  float factor;   ///< on the codes
  float rescale;  ///< on the previous sums
};

/// Turns scores, of which the row sees a range that is not empty, into weights' codes of `keys`, whole panels around
/// it; 0 for others. Replaces the scores by weights times value scales.
HWY_INLINE RowWeights weigh_row(float* HWY_RESTRICT scores, const float* HWY_RESTRICT value_scales,
                                const PositionRange& seen, const PositionRange& keys, float q_scale, float& maximum,
                                float& total, std::uint8_t* HWY_RESTRICT codes) {
  const AttentionFloatTag df;
  const hn::Rebind<std::uint8_t, AttentionIntTag> du8;
  const std::size_t lanes = hn::Lanes(df);
  const auto unseen = hn::Set(df, -std::numeric_limits<float>::infinity());
  const std::size_t begin = seen.begin / (2 * lanes) * (2 * lanes);
  const std::size_t end = (seen.end + 2 * lanes - 1) / (2 * lanes) * (2 * lanes);
  std::fill(scores + begin, scores + seen.begin, -std::numeric_limits<float>::infinity());
  std::fill(scores + seen.end, scores + end, -std::numeric_limits<float>::infinity());
  auto max0 = unseen;
  auto max1 = unseen;
  for (std::size_t i = begin; i < end; i += 2 * lanes) {
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
  const auto weigh = [&](std::size_t i, const auto& of_seen, auto& sum, auto& most) HWY_ATTR {
    const auto score = hn::LoadU(df, scores + i);
    const auto weight = of_seen(score, exp2_of<Exp2Accuracy::kWeight>(df, hn::MulAdd(score, scale, shift)));
    sum = hn::Add(sum, weight);
    const auto scaled = hn::Mul(weight, hn::LoadU(df, value_scales + i));
    most = hn::Max(most, scaled);
    hn::StoreU(scaled, df, scores + i);
  };
  const auto weigh_all = [&](const auto& of_seen) HWY_ATTR {
    for (std::size_t i = begin; i < end; i += 2 * lanes) {
      weigh(i, of_seen, sum0, most0);
      weigh(i + lanes, of_seen, sum1, most1);
    }
  };
  if (begin == seen.begin && end == seen.end) {
    weigh_all([](auto, auto weight) HWY_ATTR { return weight; });
  } else {
    weigh_all([&](auto score, auto weight) HWY_ATTR { return hn::IfThenElseZero(hn::Gt(score, unseen), weight); });
  }
  total = total * result.rescale + hn::ReduceSum(df, hn::Add(sum0, sum1));

  const float most = hn::ReduceMax(df, hn::Max(most0, most1));
  const float inverse = most < kSmallestMagnitude ? 0.0F : 255.0F / most;
  result.factor = most < kSmallestMagnitude ? 0.0F : most / 255.0F;
  const auto to_code = hn::Set(df, inverse);
  std::fill(codes + keys.begin, codes + begin, std::uint8_t{0});
  std::fill(codes + end, codes + keys.end, std::uint8_t{0});
  for (std::size_t i = begin; i < end; i += lanes) {
    const auto code = hn::NearestInt(hn::Mul(hn::LoadU(df, scores + i), to_code));
    hn::StoreU(hn::DemoteTo(du8, code), du8, codes + i);
  }
  return result;
}

/// Computes sums = sums * rescale + codes of weights . codes of values * factor, for one tile's rows and a range of
/// whole panels.
template <class Dots>
HWY_INLINE void accumulate_int8_values(const AttentionBlock& block, std::size_t first_row, std::size_t rows,
                                       const PositionRange& keys, const RowWeights* weights,
                                       const AttentionScratch& scratch) {
  static constexpr std::int32_t kStarts[kMostInt8TileRows] = {};
  const AttentionFloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  const std::size_t size = scratch.rows.sum_size;
  const std::size_t quads = keys.size() / 4;
  const std::int8_t* of_block = block.layout.values_in_keys() ? scratch.value_codes : block.value_codes();
  const std::int8_t* codes = of_block + keys.begin * size;
  const std::uint8_t* weight_codes = scratch.weights + keys.begin;
  float* sums = scratch.rows.sums + first_row * size;
  const auto add = [df, weights](std::size_t row, auto c, float* sum) HWY_ATTR {
    const auto scaled = hn::Mul(hn::ConvertTo(df, c), hn::Set(df, weights[row].factor));
    hn::StoreU(hn::MulAdd(hn::LoadU(df, sum), hn::Set(df, weights[row].rescale), scaled), df, sum);
  };
  std::size_t c = 0;
  for (; c + 4 * lanes <= size; c += 4 * lanes) {
    multiply_quads_of<Dots, kInt8TileRows, 4>(rows, weight_codes, kAttentionKeys, codes + c * 4, size * 4, quads,
                                              kStarts,
                                              [&](std::size_t row, auto c0, auto c1, auto c2, auto c3) HWY_ATTR {
                                                float* sum = sums + row * size + c;
                                                add(row, c0, sum);
                                                add(row, c1, sum + lanes);
                                                add(row, c2, sum + 2 * lanes);
                                                add(row, c3, sum + 3 * lanes);
                                              });
  }
  for (; c < size; c += lanes) {
    multiply_quads_of<Dots, kInt8TileRows, 1>(
        rows, weight_codes, kAttentionKeys, codes + c * 4, size * 4, quads, kStarts,
        [&](std::size_t row, auto c0, auto, auto, auto) HWY_ATTR { add(row, c0, sums + row * size + c); });
  }
}

/// Adds the block's FP16 tokens, whose scores have the unit q_scale, to a row's sums once its maximum is known. Tokens
/// that the row does not attend to are skipped, because their values may not be finite.
HWY_INLINE void accumulate_fp16_values(const AttentionBlock& block, std::size_t row, const float* weights,
                                       std::size_t fp16, const AttentionScratch& scratch) {
  const std::size_t size = block.layout.size(RowKind::kValues);
  float* sum = scratch.rows.sums + row * scratch.rows.sum_size;
  for (std::size_t i = 0; i < fp16; ++i) {
    if (weights[i] == 0.0F) continue;
    const auto weight = hn::Set(FloatTag(), weights[i]);
    const float* value = scratch.values + i * size;
    for_vectors(size, [&](auto load, auto store) HWY_ATTR { store(hn::MulAdd(weight, load(value), load(sum)), sum); });
  }
}

/// Processes one tile of rows, of which visible(row) is the visible part of the block; `bias` is null if keys have
/// none.
template <class Dots, class Visible>
HWY_INLINE void attend_int8_tile(const AttentionBlock& block, std::size_t fp16, const KeyRotation* bias, float limit,
                                 std::size_t first_row, std::size_t rows, const Visible& visible,
                                 const AttentionScratch& scratch) {
  const AttentionRows& state = scratch.rows;
  // Both ends ascend from row to row.
  const PositionRange keys = {visible(first_row).begin / kPanelTokens * kPanelTokens,
                              (visible(first_row + rows - 1).end + kPanelTokens - 1) / kPanelTokens * kPanelTokens};
  score_int8_tile<Dots>(block, first_row, rows, keys, scratch);
  if (bias != nullptr) add_key_bias(*bias, first_row, rows, keys, block.layout.size(RowKind::kKeys), scratch);
  score_fp16_tokens(block, fp16, first_row, rows, scratch);
  RowWeights weights[kInt8TileRows];
  HWY_ALIGN float fp16_weights[kInt8TileRows * kAttentionKeys];
  for (std::size_t row = 0; row < rows; ++row) {
    const PositionRange seen = visible(first_row + row);
    float* scores = scratch.scores + row * kAttentionKeys;
    float* fp16_weight = fp16_weights + row * kAttentionKeys;
    std::uint8_t* codes = scratch.weights + row * kAttentionKeys;
    if (seen.size() == 0) {
      std::fill(codes + keys.begin, codes + keys.end, std::uint8_t{0});
      weights[row] = {.factor = 0.0F, .rescale = 1.0F};
      std::fill_n(fp16_weight, fp16, 0.0F);
      continue;
    }
    const float q_scale = scratch.q_scales[first_row + row];
    if (limit > 0.0F) limit_scores(limit / q_scale, keys.size(), scores + keys.begin);
    if (block.first_position == 0 && seen.begin == 0) state.first_score[first_row + row] = scores[0] * q_scale;
    for (std::size_t i = 0; i < fp16; ++i) {
      const std::size_t slot = scratch.fp16_slots[i];
      const bool sees = slot >= seen.begin && slot < seen.end;
      fp16_weight[i] = sees ? scores[slot] * q_scale : -std::numeric_limits<float>::infinity();
    }
    weights[row] = weigh_row(scores, scratch.value_scales, seen, keys, q_scale, state.maximum[first_row + row],
                             state.total[first_row + row], codes);
    for (std::size_t i = 0; i < fp16; ++i) {
      fp16_weight[i] = std::exp2(fp16_weight[i] - state.maximum[first_row + row]);
    }
  }
  accumulate_int8_values<Dots>(block, first_row, rows, keys, weights, scratch);
  for (std::size_t row = 0; row < rows; ++row) {
    accumulate_fp16_values(block, first_row + row, fp16_weights + row * kAttentionKeys, fp16, scratch);
  }
}

/// Adds a block to the rows' running softmax; a row attends to visible(row), a part of the block's positions. `limit`
/// as in score_limit, `next_page` null or the page that is read next.
template <class Dots, class Visible>
HWY_INLINE void attend_int8_block(const AttentionBlock& block, const std::byte* next_page, const KeyRotation* bias,
                                  float limit, std::size_t rows, const Visible& visible,
                                  const AttentionScratch& scratch) {
  ReadAhead next(next_page, block.layout.bytes(), (rows + kInt8TileRows - 1) / kInt8TileRows);
  const std::size_t fp16 = prepare_values(block, scratch);
  if (block.layout.values_in_keys()) transpose_value_codes(block, scratch);
  const auto visible_slots = [&](std::size_t row) -> PositionRange {
    const PositionRange seen = visible(row);
    return {seen.begin - block.first_position, seen.end - block.first_position};
  };
  for (std::size_t row = 0; row < rows; row += kInt8TileRows) {
    next.step();
    attend_int8_tile<Dots>(block, fp16, bias, limit, row, std::min(kInt8TileRows, rows - row), visible_slots, scratch);
  }
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_ATTENTION_INT8_ATTENTION_INL_H_
