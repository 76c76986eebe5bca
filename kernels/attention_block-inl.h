// One block of cached keys and values: decoded, multiplied with the queries, summed into the outputs.
#if defined(BALLAST_KERNELS_ATTENTION_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_ATTENTION_BLOCK_INL_H_
#undef BALLAST_KERNELS_ATTENTION_BLOCK_INL_H_
#else
#define BALLAST_KERNELS_ATTENTION_BLOCK_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/attention_scratch.h"
#include "kernels/float_tile-inl.h"
#include "kernels/key_value_rows.h"
// After highway.h:
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// `count` <= kAttentionKeys slots side by side, of one key head, in keys or values of `size` each.
struct RowBlock {
  const CachedRows& rows;
  std::size_t heads;
  std::size_t head;
  std::size_t slot;
  std::size_t count;
  std::size_t size;

  const char* row(std::size_t i) const {
    return static_cast<const char*>(rows.data) + (head * rows.capacity + slot + i) * size * cache_type_bytes(rows.type);
  }
  float scale(std::size_t i) const { return rows.scales[head * rows.capacity + slot + i]; }
  /// The F16 row that stands for row i; null where the codes stand for themselves.
  const std::uint16_t* exact_row(std::size_t i) const {
    const std::int32_t exact = rows.exact_rows == nullptr ? -1 : rows.exact_rows[slot + i];
    return exact < 0 ? nullptr : rows.exact + (static_cast<std::size_t>(exact) * heads + head) * size;
  }
};

/// INT8 keys first .. first + wide as codes, transposed; those kept in F16 as values. What multiplies their scores
/// comes into scratch.key_scales.
HWY_INLINE void decode_int8_keys(const RowBlock& keys, std::size_t first, std::size_t wide,
                                 const AttentionScratch& scratch) {
  const std::size_t width = panel_rows();
  decode_panel_of(reinterpret_cast<const std::int8_t*>(keys.row(first)), keys.size, wide, keys.size, scratch.panel);
  for (std::size_t i = 0; i < wide; ++i) {
    const std::uint16_t* exact = keys.exact_row(first + i);
    scratch.key_scales[i] = exact == nullptr ? keys.scale(first + i) : 1.0F;
    if (exact == nullptr) continue;
    decode_values(exact, FloatType::kF16, keys.size, scratch.exact_key);
    for (std::size_t c = 0; c < keys.size; ++c) scratch.panel[c * width + i] = scratch.exact_key[c];
  }
}

/// Scores of `rows` queries with a block of keys.
HWY_INLINE void score_block(const RowBlock& keys, std::size_t rows, const AttentionScratch& scratch) {
  const FloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  const std::size_t width = panel_rows();
  for (std::size_t key = 0; key < keys.count; key += width) {
    const std::size_t wide = HWY_MIN(width, keys.count - key);
    float* scores = scratch.scores + key;
    if (keys.rows.type != CacheType::kInt8) {
      decode_panel(keys.row(key), float_type(keys.rows.type), keys.size, wide, keys.size, scratch.panel);
      multiply_panel(scratch.q, rows, keys.size, scratch.panel, width, keys.size,
                     [&](std::size_t row, auto c0, auto c1)
                         HWY_ATTR { store_pair(df, c0, c1, wide, scores + row * kAttentionKeys); });
    } else {
      decode_int8_keys(keys, key, wide, scratch);
      multiply_panel(scratch.q, rows, keys.size, scratch.panel, width, keys.size,
                     [&](std::size_t row, auto c0, auto c1) HWY_ATTR {
                       const auto scale0 = hn::LoadU(df, scratch.key_scales);
                       const auto scale1 = hn::LoadU(df, scratch.key_scales + lanes);
                       store_pair(df, hn::Mul(c0, scale0), hn::Mul(c1, scale1), wide, scores + row * kAttentionKeys);
                     });
    }
  }
}

/// Softmax weights of `valid` scores in place, zeros up to `count`; updates the row's maximum and total.
HWY_INLINE void softmax_block(float* HWY_RESTRICT scores, std::size_t valid, std::size_t count, float& maximum,
                              float& total, float& rescale) {
  const FloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  rescale = 1.0F;
  if (valid == 0) {
    for (std::size_t i = 0; i < count; ++i) scores[i] = 0.0F;
    return;
  }
  const auto lowest = hn::Set(df, -std::numeric_limits<float>::infinity());
  auto max = hn::Set(df, maximum);
  std::size_t i = 0;
  for (; i + lanes <= valid; i += lanes) max = hn::Max(max, hn::LoadU(df, scores + i));
  if (i < valid) {
    max = hn::Max(max, hn::IfThenElse(hn::FirstN(df, valid - i), hn::LoadN(df, scores + i, valid - i), lowest));
  }
  const float new_maximum = hn::ReduceMax(df, max);
  rescale = maximum == -std::numeric_limits<float>::infinity() ? 0.0F : std::exp(maximum - new_maximum);
  maximum = new_maximum;
  const auto shift = hn::Set(df, new_maximum);
  auto sum = hn::Zero(df);
  for (i = 0; i + lanes <= valid; i += lanes) {
    const auto weight = hn::Exp(df, hn::Sub(hn::LoadU(df, scores + i), shift));
    sum = hn::Add(sum, weight);
    hn::StoreU(weight, df, scores + i);
  }
  if (i < valid) {
    const std::size_t left = valid - i;
    const auto weight =
        hn::IfThenElseZero(hn::FirstN(df, left), hn::Exp(df, hn::Sub(hn::LoadN(df, scores + i, left), shift)));
    sum = hn::Add(sum, weight);
    hn::StoreN(weight, df, scores + i, left);
  }
  for (i = valid; i < count; ++i) scores[i] = 0.0F;
  total = total * rescale + hn::ReduceSum(df, sum);
}

/// Softmax weights of the scores `begin` .. `end` of a row in place, zeros elsewhere up to `count`.
HWY_INLINE void softmax_part(float* HWY_RESTRICT scores, std::size_t begin, std::size_t end, std::size_t count,
                             float& maximum, float& total, float& rescale) {
  for (std::size_t i = 0; i < begin; ++i) scores[i] = 0.0F;
  softmax_block(scores + begin, end - begin, count - begin, maximum, total, rescale);
}

/// A block of values to F32.
HWY_INLINE void decode_value_block(const RowBlock& block, float* HWY_RESTRICT dst) {
  if (block.rows.type != CacheType::kInt8) {
    decode_values(block.row(0), float_type(block.rows.type), block.count * block.size, dst);
    return;
  }
  const FloatTag df;
  for (std::size_t i = 0; i < block.count; ++i, dst += block.size) {
    if (const std::uint16_t* exact = block.exact_row(i); exact != nullptr) {
      decode_values(exact, FloatType::kF16, block.size, dst);
      continue;
    }
    const std::int8_t* codes = reinterpret_cast<const std::int8_t*>(block.row(i));
    const auto scale = hn::Set(df, block.scale(i));
    const std::size_t lanes = hn::Lanes(df);
    std::size_t c = 0;
    for (; c + lanes <= block.size; c += lanes) hn::StoreU(hn::Mul(load_as_float(df, codes + c), scale), df, dst + c);
    const std::size_t left = block.size - c;
    if (left != 0) hn::StoreN(hn::Mul(load_as_float_n(df, codes + c, left), scale), df, dst + c, left);
  }
}

/// sums = sums * rescale + weights . values
HWY_INLINE void accumulate_values(std::size_t value_size, std::size_t rows, std::size_t count,
                                  const AttentionScratch& scratch) {
  const FloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  const std::size_t width = panel_rows();
  for (std::size_t c = 0; c < value_size; c += width) {
    const std::size_t wide = HWY_MIN(width, value_size - c);
    float* sums = scratch.sums + c;
    multiply_panel(scratch.scores, rows, kAttentionKeys, scratch.values + c, value_size, count,
                   [&](std::size_t row, auto c0, auto c1) HWY_ATTR {
                     const auto rescale = hn::Set(df, scratch.rescale[row]);
                     float* sum = sums + row * value_size;
                     store_pair(df, hn::MulAdd(load_or_zero(df, sum, 0, wide), rescale, c0),
                                hn::MulAdd(load_or_zero(df, sum, lanes, wide), rescale, c1), wide, sum);
                   });
  }
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_ATTENTION_BLOCK_INL_H_
