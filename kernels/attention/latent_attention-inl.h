// Attention over float caches whose values are the first channels of the keys. All heads share the one key head, so a
// single token has a row for each of them: lanes hold rows, and neither keys nor values are transposed.
#if defined(BALLAST_KERNELS_ATTENTION_LATENT_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_ATTENTION_LATENT_ATTENTION_INL_H_
#undef BALLAST_KERNELS_ATTENTION_LATENT_ATTENTION_INL_H_
#else
#define BALLAST_KERNELS_ATTENTION_LATENT_ATTENTION_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <limits>

#include "kernels/attention/attention_task.h"
#include "kernels/attention/exp2-inl.h"
#include "kernels/attention/float_attention-inl.h"
#include "kernels/attention/key_value_pages.h"
#include "kernels/attention/read_ahead.h"
#include "kernels/matrix/float_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// The most rows for which the product decodes values itself; with more rows a decoded copy is faster.
inline constexpr std::size_t kRowsWithoutCopy = 2 * kTileRows;

/// Copies scratch.q to scratch.q_lanes.
HWY_INLINE void lay_queries_in_lanes(std::size_t rows, std::size_t size, const AttentionScratch& scratch) {
  const std::size_t width = panel_rows();
  for (std::size_t row = 0; row < rows; row += width) {
    decode_panel_of(scratch.q + row * size, size, HWY_MIN(width, rows - row), size, scratch.q_lanes + row * size);
  }
}

/// Multiplies `depth` channels of keys in F32, kChannelsAtOnce apart, with those of kVectors vectors of rows, and
/// stores the results as the scores or adds them.
template <std::size_t kVectors>
HWY_INLINE void score_lanes(const float* keys, std::size_t count, std::size_t depth, const float* q, bool adds,
                            float* scores, std::size_t stride) {
  const FloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  for (std::size_t first = 0; first < count; first += kTileRows) {
    float* of_tile = scores + first * stride;
    const auto store = [&](std::size_t key, auto c0, auto c1) HWY_ATTR {
      float* dst = of_tile + key * stride;
      hn::StoreU(adds ? hn::Add(hn::LoadU(df, dst), c0) : c0, df, dst);
      if constexpr (kVectors > 1) {
        hn::StoreU(adds ? hn::Add(hn::LoadU(df, dst + lanes), c1) : c1, df, dst + lanes);
      }
    };
    multiply_tile_of<kTileRows, kVectors>(HWY_MIN(kTileRows, count - first), keys + first * kChannelsAtOnce,
                                          kChannelsAtOnce, q, panel_rows(), depth, store);
  }
}

/// Computes scores of a block of keys with all rows: scratch.scores [keys][lane_rows].
template <class T>
HWY_INLINE void score_latent_block(const AttentionBlock& block, const T* keys, std::size_t rows, ReadAhead& own,
                                   ReadAhead& next, const AttentionScratch& scratch) {
  const std::size_t width = panel_rows();
  const std::size_t stride = lane_rows(rows);
  const std::size_t size = block.layout.size(RowKind::kKeys);
  const std::size_t keys_at_once = rows > width ? kAttentionKeys : kTileRows;
  for (std::size_t c = 0; c < size; c += kChannelsAtOnce) {
    const std::size_t depth = HWY_MIN(kChannelsAtOnce, size - c);
    for (std::size_t key = 0; key < block.count(); key += keys_at_once) {
      const std::size_t count = HWY_MIN(keys_at_once, block.count() - key);
      own.step();
      next.step();
      for (std::size_t i = 0; i < count; ++i) {
        decode_values_of(keys + (key + i) * size + c, depth, scratch.panel + i * kChannelsAtOnce);
      }
      for (std::size_t row = 0; row < rows; row += width) {
        const float* q = scratch.q_lanes + row * size + c * width;
        float* scores = scratch.scores + key * stride + row;
        if (rows - row > width / 2) {
          score_lanes<2>(scratch.panel, count, depth, q, c > 0, scores, stride);
        } else {
          score_lanes<1>(scratch.panel, count, depth, q, c > 0, scores, stride);
        }
      }
    }
  }
}

/// Sets scores that a row does not see to -infinity.
template <class Visible>
HWY_INLINE void hide_scores(const AttentionBlock& block, std::size_t rows, const Visible& visible,
                            const AttentionScratch& scratch) {
  const std::size_t stride = lane_rows(rows);
  const PositionRange positions = block.positions();
  for (std::size_t row = 0; row < rows; ++row) {
    const PositionRange seen = visible(row);
    if (seen.begin == 0 && seen.end != 0) scratch.rows.first_score[row] = scratch.scores[row];
    for (std::size_t position = positions.begin; position < positions.end; ++position) {
      if (position == seen.begin) position = seen.end;
      if (position == positions.end) break;
      scratch.scores[(position - positions.begin) * stride + row] = -std::numeric_limits<float>::infinity();
    }
  }
}

/// Computes softmax weights of the block's scores in place; updates the rows' maxima and totals.
HWY_INLINE void weigh_latent_block(std::size_t keys, std::size_t rows, const AttentionScratch& scratch) {
  const FloatTag df;
  const std::size_t stride = lane_rows(rows);
  const auto unseen = hn::Set(df, -std::numeric_limits<float>::infinity());
  float* HWY_RESTRICT scores = scratch.scores;
  for_vectors(rows, [&](auto load, auto store) HWY_ATTR {
    const auto before = load(scratch.rows.maximum);
    auto maximum = before;
    for (std::size_t key = 0; key < keys; ++key) maximum = hn::Max(maximum, hn::LoadU(df, scores + key * stride));
    auto sum = hn::Zero(df);
    for (std::size_t key = 0; key < keys; ++key) {
      float* score = scores + key * stride;
      const auto of_key = hn::LoadU(df, score);
      const auto weight =
          hn::IfThenZeroElse(hn::Eq(of_key, unseen), exp2_of<Exp2Accuracy::kFloat>(df, hn::Sub(of_key, maximum)));
      sum = hn::Add(sum, weight);
      hn::StoreU(weight, df, score);
    }
    const auto rescale = exp2_of<Exp2Accuracy::kFloat>(df, hn::Sub(before, maximum));
    store(hn::MulAdd(load(scratch.rows.total), rescale, sum), scratch.rows.total);
    store(rescale, scratch.rescale);
    store(maximum, scratch.rows.maximum);
    scores += hn::Lanes(df);
  });
}

/// Computes sums = sums * rescale + weights . values for `wide` channels from `first` on, a vector or two; values of
/// different keys are `value_stride` apart. Rows are divided evenly among the fewest possible tiles.
template <class T>
HWY_INLINE void accumulate_channels(std::size_t keys, std::size_t rows, const T* values, std::size_t value_stride,
                                    std::size_t first, std::size_t wide, const AttentionScratch& scratch) {
  const FloatTag df;
  const std::size_t tiles = (rows + kTileRows - 1) / kTileRows;
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    const std::size_t begin = rows * tile / tiles, end = rows * (tile + 1) / tiles;
    const float* rescales = scratch.rescale + begin;
    float* sums = scratch.rows.sums + begin * scratch.rows.sum_size + first;
    const auto add = [&](std::size_t row, auto c0, auto c1) HWY_ATTR {
      const auto rescale = hn::Set(df, rescales[row]);
      float* sum = sums + row * scratch.rows.sum_size;
      store_pair(df, hn::MulAdd(load_or_zero(df, sum, 0, wide), rescale, c0),
                 hn::MulAdd(load_or_zero(df, sum, hn::Lanes(df), wide), rescale, c1), wide, sum);
    };
    multiply_tile_of<kTileRows>(end - begin, scratch.scores + begin, 1, values, value_stride, keys, add,
                                lane_rows(rows));
  }
}

template <class T>
HWY_INLINE void accumulate_latent_values(const AttentionBlock& block, const T* values, std::size_t rows,
                                         ReadAhead& next, const AttentionScratch& scratch) {
  const std::size_t width = panel_rows();
  const std::size_t size = block.layout.size(RowKind::kValues);
  const std::size_t stride = block.layout.size(RowKind::kKeys);
  for (std::size_t c = 0; c < size; c += width) {
    const std::size_t wide = HWY_MIN(width, size - c);
    next.step();
    if (wide == width && rows <= kRowsWithoutCopy) {
      accumulate_channels(block.count(), rows, values + c, stride, c, wide, scratch);
      continue;
    }
    for (std::size_t key = 0; key < block.count(); ++key) {
      decode_values_of(values + key * stride + c, wide, scratch.values + key * width);
    }
    accumulate_channels(block.count(), rows, scratch.values, width, c, wide, scratch);
  }
}

template <class T, class Visible>
HWY_INLINE void attend_latent_keys(const AttentionBlock& block, const T* keys, const std::byte* next_page, float limit,
                                   std::size_t rows, const Visible& visible, const AttentionScratch& scratch) {
  const std::size_t size = block.layout.size(RowKind::kKeys);
  const std::size_t tiles = (block.count() + kTileRows - 1) / kTileRows;
  ReadAhead own(reinterpret_cast<const std::byte*>(keys), block.count() * size * sizeof(T), tiles);
  own.step();
  ReadAhead next(next_page, kAttentionKeys * size * sizeof(T),
                 (size / kChannelsAtOnce + 1) * tiles + block.layout.size(RowKind::kValues) / panel_rows());
  score_latent_block(block, keys, rows, own, next, scratch);
  if (limit > 0.0F) limit_scores(limit, block.count() * lane_rows(rows), scratch.scores);
  hide_scores(block, rows, visible, scratch);
  weigh_latent_block(block.count(), rows, scratch);
  accumulate_latent_values(block, keys, rows, next, scratch);
}

/// Adds a block to the rows' running softmax; a row attends to visible(row), a part of the block's positions. `limit`
/// as in score_limit. The next block's keys are in `next_page`, null for none.
template <class Visible>
HWY_INLINE void attend_latent_block(const AttentionBlock& block, const std::byte* next_page, float limit,
                                    std::size_t rows, const Visible& visible, const AttentionScratch& scratch) {
  const std::byte* keys = block.rows(RowKind::kKeys) + block.begin * block.layout.row_bytes(RowKind::kKeys);
  if (block.layout.type() == CacheType::kF32) {
    attend_latent_keys(block, reinterpret_cast<const float*>(keys), next_page, limit, rows, visible, scratch);
  } else {
    attend_latent_keys(block, reinterpret_cast<const hwy::float16_t*>(keys), next_page, limit, rows, visible, scratch);
  }
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_ATTENTION_LATENT_ATTENTION_INL_H_
