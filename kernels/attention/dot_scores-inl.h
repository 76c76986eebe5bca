// Scores of queries with keys that many heads share, as dot products along the channels. Keys stay rows: nothing is
// transposed, which for the few rows of a single token costs as much as the products.
#if defined(BALLAST_KERNELS_ATTENTION_DOT_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_ATTENTION_DOT_SCORES_INL_H_
#undef BALLAST_KERNELS_ATTENTION_DOT_SCORES_INL_H_
#else
#define BALLAST_KERNELS_ATTENTION_DOT_SCORES_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

#include "kernels/attention/attention_task.h"
#include "kernels/matrix/float_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// Rows of a tile; with kDotKeys keys, 24 accumulators where there are 32 registers.
inline constexpr std::size_t kDotRows = kManyRegisters ? 3 : 1;

template <class V>
HWY_INLINE void add_products(V q, V k0, V k1, V k2, V k3, V k4, V k5, V k6, V k7, V& c0, V& c1, V& c2, V& c3, V& c4,
                             V& c5, V& c6, V& c7) {
  c0 = hn::MulAdd(q, k0, c0);
  c1 = hn::MulAdd(q, k1, c1);
  c2 = hn::MulAdd(q, k2, c2);
  c3 = hn::MulAdd(q, k3, c3);
  c4 = hn::MulAdd(q, k4, c4);
  c5 = hn::MulAdd(q, k5, c5);
  c6 = hn::MulAdd(q, k6, c6);
  c7 = hn::MulAdd(q, k7, c7);
}

/// Dot products of kRows rows of q, `size` values `size` apart, with kDotKeys keys, `stride` apart and padded with
/// zeros to whole vectors, to scores rows kAttentionKeys apart. The order of a sum does not depend on the tile.
/// Named variables, as in multiply_tile.
template <std::size_t kRows>
HWY_INLINE void dot_tile(const float* HWY_RESTRICT q, std::size_t size, const float* HWY_RESTRICT keys,
                         std::size_t stride, std::size_t key_count, float* HWY_RESTRICT scores) {
  static_assert(kDotKeys == 8);
  const FloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  auto c00 = hn::Zero(df), c01 = c00, c02 = c00, c03 = c00, c04 = c00, c05 = c00, c06 = c00, c07 = c00;
  auto c10 = c00, c11 = c00, c12 = c00, c13 = c00, c14 = c00, c15 = c00, c16 = c00, c17 = c00;
  auto c20 = c00, c21 = c00, c22 = c00, c23 = c00, c24 = c00, c25 = c00, c26 = c00, c27 = c00;
  const float* rows1 = q + (kRows > 1 ? size : 0);
  const float* rows2 = q + (kRows > 2 ? 2 * size : 0);
  for (std::size_t c = 0; c < size; c += lanes) {
    const bool whole = c + lanes <= size;
    const auto load = [df, c, whole, left = size - c](const float* row)
                          HWY_ATTR { return whole ? hn::LoadU(df, row + c) : hn::LoadN(df, row + c, left); };
    const float* key = keys + c;
    const auto k0 = hn::LoadU(df, key), k1 = hn::LoadU(df, key + stride);
    const auto k2 = hn::LoadU(df, key + 2 * stride), k3 = hn::LoadU(df, key + 3 * stride);
    const auto k4 = hn::LoadU(df, key + 4 * stride), k5 = hn::LoadU(df, key + 5 * stride);
    const auto k6 = hn::LoadU(df, key + 6 * stride), k7 = hn::LoadU(df, key + 7 * stride);
    add_products(load(q), k0, k1, k2, k3, k4, k5, k6, k7, c00, c01, c02, c03, c04, c05, c06, c07);
    if constexpr (kRows > 1) {
      add_products(load(rows1), k0, k1, k2, k3, k4, k5, k6, k7, c10, c11, c12, c13, c14, c15, c16, c17);
    }
    if constexpr (kRows > 2) {
      add_products(load(rows2), k0, k1, k2, k3, k4, k5, k6, k7, c20, c21, c22, c23, c24, c25, c26, c27);
    }
  }
  const auto store = [df, key_count](float* dst, auto s0, auto s1, auto s2, auto s3, auto s4, auto s5, auto s6,
                                     auto s7) HWY_ATTR {
    const float sums[kDotKeys] = {hn::ReduceSum(df, s0), hn::ReduceSum(df, s1), hn::ReduceSum(df, s2),
                                  hn::ReduceSum(df, s3), hn::ReduceSum(df, s4), hn::ReduceSum(df, s5),
                                  hn::ReduceSum(df, s6), hn::ReduceSum(df, s7)};
    std::copy_n(sums, key_count, dst);
  };
  store(scores, c00, c01, c02, c03, c04, c05, c06, c07);
  if constexpr (kRows > 1) store(scores + kAttentionKeys, c10, c11, c12, c13, c14, c15, c16, c17);
  if constexpr (kRows > 2) store(scores + 2 * kAttentionKeys, c20, c21, c22, c23, c24, c25, c26, c27);
}

/// Scores of `rows` queries with a block of float keys, to scratch.scores.
HWY_INLINE void score_by_dots(const AttentionBlock& block, std::size_t rows, const AttentionScratch& scratch) {
  const std::size_t lanes = hn::Lanes(FloatTag());
  const std::size_t size = block.layout.size(RowKind::kKeys);
  const std::size_t stride = (size + lanes - 1) / lanes * lanes;
  const std::size_t row_bytes = block.layout.row_bytes(RowKind::kKeys);
  const FloatType type = float_type(block.layout.type());
  const std::byte* keys = block.rows(RowKind::kKeys) + block.begin * row_bytes;
  for (std::size_t key = 0; key < block.count(); key += kDotKeys) {
    const std::size_t count = HWY_MIN(kDotKeys, block.count() - key);
    for (std::size_t i = 0; i < kDotKeys; ++i) {  // those that are missing repeat the last one
      float* dst = scratch.panel + i * stride;
      decode_values(keys + (key + HWY_MIN(i, count - 1)) * row_bytes, type, size, dst);
      std::fill(dst + size, dst + stride, 0.0F);
    }
    std::size_t row = 0;
    for (; row + kDotRows <= rows; row += kDotRows) {
      dot_tile<kDotRows>(scratch.q + row * size, size, scratch.panel, stride, count,
                         scratch.scores + row * kAttentionKeys + key);
    }
    for (; row < rows; ++row) {
      dot_tile<1>(scratch.q + row * size, size, scratch.panel, stride, count,
                  scratch.scores + row * kAttentionKeys + key);
    }
  }
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_ATTENTION_DOT_SCORES_INL_H_
