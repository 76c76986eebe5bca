// The F32 matrix product of one thread: weights decoded to panels, and the register tile that multiplies them. A panel
// contains 2 vectors of output rows, transposed: [cols][2 * Lanes].
#if defined(BALLAST_KERNELS_MATRIX_FLOAT_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_MATRIX_FLOAT_TILE_INL_H_
#undef BALLAST_KERNELS_MATRIX_FLOAT_TILE_INL_H_
#else
#define BALLAST_KERNELS_MATRIX_FLOAT_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "kernels/matrix/float_matrix.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

HWY_INLINE std::size_t panel_rows() {
  return 2 * hn::Lanes(FloatTag());
}

/// Rows of activations in a tile: 24 accumulators where there are 32 registers, else 12.
inline constexpr std::size_t kTileRows = kManyRegisters ? 12 : 6;

template <class T>
HWY_INLINE void decode_values_of(const T* HWY_RESTRICT src, std::size_t count, float* HWY_RESTRICT dst) {
  const FloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(load_as_float(df, src + i), df, dst + i);
  if (i < count) hn::StoreN(load_as_float_n(df, src + i, count - i), df, dst + i, count - i);
}

/// Converts `count` values of any type to F32.
inline void decode_values(const void* src, FloatType type, std::size_t count, float* dst) {
  switch (type) {
    case FloatType::kF32:
      return decode_values_of(static_cast<const float*>(src), count, dst);
    case FloatType::kF16:
      return decode_values_of(static_cast<const hwy::float16_t*>(src), count, dst);
    case FloatType::kBF16:
      return decode_values_of(static_cast<const hwy::bfloat16_t*>(src), count, dst);
  }
}

#if !HWY_HAVE_SCALABLE
/// Loads a vector of blocks of 4 lanes, which contain 4 values of rows 0, 4, ..; rows are `stride` values apart.
template <class D, class T>
HWY_INLINE hn::VFromD<D> load_blocks(D d, const T* HWY_RESTRICT src, std::size_t stride) {
  if constexpr (hn::MaxLanes(d) <= 4) {
    return hn::LoadU(d, src);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, load_blocks(half, src + hn::MaxLanes(half) * stride, stride), load_blocks(half, src, stride));
  }
}

template <class DF>
HWY_INLINE hn::VFromD<DF> load_blocks_as_float(DF df, const float* HWY_RESTRICT src, std::size_t stride) {
  return load_blocks(df, src, stride);
}
/// Does the same for 16-bit floats, which are loaded as integers as in load_as_float.
template <class DF, class T>
HWY_INLINE hn::VFromD<DF> load_blocks_as_float(DF df, const T* HWY_RESTRICT src, std::size_t stride) {
  const hn::Rebind<std::uint16_t, DF> du16;
  const auto bits = load_blocks(du16, reinterpret_cast<const std::uint16_t*>(src), stride);
  return hn::PromoteTo(df, hn::BitCast(hn::Rebind<T, DF>(), bits));
}

/// Number of rows that are transposed together: the first-level cache keeps 8 lines that are a power of two apart, not
/// 16.
using RowGroupTag = hn::CappedTag<float, 8>;

/// Transposes 4 columns of a group of rows; columns of `panel` are panel_rows() apart.
template <class T>
HWY_INLINE void transpose_columns(const T* HWY_RESTRICT src, std::size_t stride, float* HWY_RESTRICT panel) {
  const RowGroupTag df;
  const hn::RepartitionToWide<RowGroupTag> dw;
  const std::size_t width = panel_rows();
  const auto row0 = load_blocks_as_float(df, src, stride);
  const auto row1 = load_blocks_as_float(df, src + stride, stride);
  const auto row2 = load_blocks_as_float(df, src + 2 * stride, stride);
  const auto row3 = load_blocks_as_float(df, src + 3 * stride, stride);
  const auto lower01 = hn::BitCast(dw, hn::InterleaveLower(df, row0, row1));
  const auto upper01 = hn::BitCast(dw, hn::InterleaveUpper(df, row0, row1));
  const auto lower23 = hn::BitCast(dw, hn::InterleaveLower(df, row2, row3));
  const auto upper23 = hn::BitCast(dw, hn::InterleaveUpper(df, row2, row3));
  hn::StoreU(hn::BitCast(df, hn::InterleaveLower(dw, lower01, lower23)), df, panel);
  hn::StoreU(hn::BitCast(df, hn::InterleaveUpper(dw, lower01, lower23)), df, panel + width);
  hn::StoreU(hn::BitCast(df, hn::InterleaveLower(dw, upper01, upper23)), df, panel + 2 * width);
  hn::StoreU(hn::BitCast(df, hn::InterleaveUpper(dw, upper01, upper23)), df, panel + 3 * width);
}
#endif

/// Transposes `rows` <= panel_rows() rows of `cols` values, `stride` elements apart, into `panel`. Missing rows repeat
/// the last one: results for them are never stored.
template <class T>
HWY_INLINE void decode_panel_of(const T* HWY_RESTRICT src, std::size_t stride, std::size_t rows, std::size_t cols,
                                float* HWY_RESTRICT panel) {
  const FloatTag df;
  const hn::FixedTag<float, 4> d4;
  const std::size_t lanes = hn::Lanes(df);
  const std::size_t width = panel_rows();
  std::size_t first = 0;
#if !HWY_HAVE_SCALABLE
  if (rows == width) {
    first = cols / 4 * 4;
    for (std::size_t r = 0; r < width; r += hn::MaxLanes(RowGroupTag())) {
      for (std::size_t c = 0; c < first; c += 4) transpose_columns(src + r * stride + c, stride, panel + c * width + r);
    }
  }
#endif
  HWY_ALIGN float columns[4 * hn::MaxLanes(df)];
  for (std::size_t r = 0; r < width && first < cols; r += 4) {
    const T* row0 = src + HWY_MIN(r + 0, rows - 1) * stride;
    const T* row1 = src + HWY_MIN(r + 1, rows - 1) * stride;
    const T* row2 = src + HWY_MIN(r + 2, rows - 1) * stride;
    const T* row3 = src + HWY_MIN(r + 3, rows - 1) * stride;
    float* dst = panel + r;
    std::size_t c = first;
    for (; c + lanes <= cols; c += lanes) {
      hn::StoreInterleaved4(load_as_float(df, row0 + c), load_as_float(df, row1 + c), load_as_float(df, row2 + c),
                            load_as_float(df, row3 + c), df, columns);
      for (std::size_t i = 0; i < lanes; ++i) hn::StoreU(hn::Load(d4, columns + 4 * i), d4, dst + (c + i) * width);
    }
    const std::size_t left = cols - c;
    if (left != 0) {
      hn::StoreInterleaved4(load_as_float_n(df, row0 + c, left), load_as_float_n(df, row1 + c, left),
                            load_as_float_n(df, row2 + c, left), load_as_float_n(df, row3 + c, left), df, columns);
      for (std::size_t i = 0; i < left; ++i) hn::StoreU(hn::Load(d4, columns + 4 * i), d4, dst + (c + i) * width);
    }
  }
}

inline void decode_panel(const void* src, FloatType type, std::size_t stride, std::size_t rows, std::size_t cols,
                         float* panel) {
  switch (type) {
    case FloatType::kF32:
      return decode_panel_of(static_cast<const float*>(src), stride, rows, cols, panel);
    case FloatType::kF16:
      return decode_panel_of(static_cast<const hwy::float16_t*>(src), stride, rows, cols, panel);
    case FloatType::kBF16:
      return decode_panel_of(static_cast<const hwy::bfloat16_t*>(src), stride, rows, cols, panel);
  }
}

template <std::size_t kVectors, class DF, class V = hn::VFromD<DF>>
HWY_INLINE void accumulate_row(DF df, float activation, V b0, V b1, V& c0, V& c1) {
  const V a = hn::Set(df, activation);
  c0 = hn::MulAdd(a, b0, c0);
  if constexpr (kVectors > 1) c1 = hn::MulAdd(a, b1, c1);
}

/// Multiplies kRows rows of src with one panel whose columns are `panel_stride` values apart, and passes the two
/// vectors of each row to store(row, c0, c1); if kVectors is 1, c1 is 0. The values of a row of src are
/// `step` apart. Sums run over `depth` in order for every kRows, so a result does not depend on how rows are cut into
/// tiles. The sums are named variables, because SVE has no arrays of vectors and gcc does not keep such arrays in
/// registers.
template <std::size_t kRows, std::size_t kVectors = 2, class T, class Store, class DF = FloatTag>
HWY_INLINE void multiply_tile(const float* HWY_RESTRICT src, std::size_t stride, const T* HWY_RESTRICT panel,
                              std::size_t panel_stride, std::size_t depth, const Store& store, std::size_t step = 1,
                              DF df = {}) {
  static_assert(kVectors == 1 || kVectors == 2);
  const std::size_t lanes = hn::Lanes(df);
  auto c00 = hn::Zero(df), c01 = c00;
  auto c10 = c00, c11 = c00;
  auto c20 = c00, c21 = c00;
  auto c30 = c00, c31 = c00;
  auto c40 = c00, c41 = c00;
  auto c50 = c00, c51 = c00;
  auto c60 = c00, c61 = c00;
  auto c70 = c00, c71 = c00;
  auto c80 = c00, c81 = c00;
  auto c90 = c00, c91 = c00;
  auto ca0 = c00, ca1 = c00;
  auto cb0 = c00, cb1 = c00;
  for (std::size_t k = 0; k < depth; ++k) {
    const auto b0 = load_as_float(df, panel);
    const auto b1 = kVectors > 1 ? load_as_float(df, panel + lanes) : b0;
    panel += panel_stride;
    const float* a = src + k * step;
    accumulate_row<kVectors>(df, a[0], b0, b1, c00, c01);
    if constexpr (kRows > 1) accumulate_row<kVectors>(df, a[stride], b0, b1, c10, c11);
    if constexpr (kRows > 2) accumulate_row<kVectors>(df, a[2 * stride], b0, b1, c20, c21);
    if constexpr (kRows > 3) accumulate_row<kVectors>(df, a[3 * stride], b0, b1, c30, c31);
    if constexpr (kRows > 4) accumulate_row<kVectors>(df, a[4 * stride], b0, b1, c40, c41);
    if constexpr (kRows > 5) accumulate_row<kVectors>(df, a[5 * stride], b0, b1, c50, c51);
    if constexpr (kRows > 6) accumulate_row<kVectors>(df, a[6 * stride], b0, b1, c60, c61);
    if constexpr (kRows > 7) accumulate_row<kVectors>(df, a[7 * stride], b0, b1, c70, c71);
    if constexpr (kRows > 8) accumulate_row<kVectors>(df, a[8 * stride], b0, b1, c80, c81);
    if constexpr (kRows > 9) accumulate_row<kVectors>(df, a[9 * stride], b0, b1, c90, c91);
    if constexpr (kRows > 10) accumulate_row<kVectors>(df, a[10 * stride], b0, b1, ca0, ca1);
    if constexpr (kRows > 11) accumulate_row<kVectors>(df, a[11 * stride], b0, b1, cb0, cb1);
  }
  store(0, c00, c01);
  if constexpr (kRows > 1) store(1, c10, c11);
  if constexpr (kRows > 2) store(2, c20, c21);
  if constexpr (kRows > 3) store(3, c30, c31);
  if constexpr (kRows > 4) store(4, c40, c41);
  if constexpr (kRows > 5) store(5, c50, c51);
  if constexpr (kRows > 6) store(6, c60, c61);
  if constexpr (kRows > 7) store(7, c70, c71);
  if constexpr (kRows > 8) store(8, c80, c81);
  if constexpr (kRows > 9) store(9, c90, c91);
  if constexpr (kRows > 10) store(10, ca0, ca1);
  if constexpr (kRows > 11) store(11, cb0, cb1);
}

template <std::size_t kMostRows, std::size_t kVectors = 2, class T, class Store>
HWY_INLINE void multiply_tile_of(std::size_t rows, const float* src, std::size_t stride, const T* panel,
                                 std::size_t panel_stride, std::size_t depth, const Store& store,
                                 std::size_t step = 1) {
  if (rows == kMostRows) {
    multiply_tile<kMostRows, kVectors>(src, stride, panel, panel_stride, depth, store, step);
  } else if constexpr (kMostRows > 1) {
    multiply_tile_of<kMostRows - 1, kVectors>(rows, src, stride, panel, panel_stride, depth, store, step);
  }
}

/// Multiplies any number of rows of src, `stride` floats apart.
template <class Store>
HWY_INLINE void multiply_panel(const float* src, std::size_t m, std::size_t stride, const float* panel,
                               std::size_t panel_stride, std::size_t depth, const Store& store) {
  std::size_t i = 0;
  for (; i + kTileRows <= m; i += kTileRows) {
    multiply_tile<kTileRows>(src + i * stride, stride, panel, panel_stride, depth,
                             [&store, i](std::size_t row, auto c0, auto c1) HWY_ATTR { store(i + row, c0, c1); });
  }
  if (i < m) {
    multiply_tile_of<kTileRows - 1>(m - i, src + i * stride, stride, panel, panel_stride, depth,
                                    [&store, i](std::size_t row, auto c0, auto c1)
                                        HWY_ATTR { store(i + row, c0, c1); });
  }
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_MATRIX_FLOAT_TILE_INL_H_
