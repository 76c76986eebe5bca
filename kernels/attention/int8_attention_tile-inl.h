// The INT8 product inside attention: a few rows of codes, four at a time in every lane, times vectors of four codes
// per lane.
#if defined(BALLAST_KERNELS_ATTENTION_INT8_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_ATTENTION_INT8_ATTENTION_TILE_INL_H_
#undef BALLAST_KERNELS_ATTENTION_INT8_ATTENTION_TILE_INL_H_
#else
#define BALLAST_KERNELS_ATTENTION_INT8_ATTENTION_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "kernels/matrix/dot-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// At most 16 lanes, so that panels of 64 keys and rows of a multiple of 16 values are whole numbers of vectors.
using AttentionFloatTag = hn::CappedTag<float, 16>;
using AttentionIntTag = hn::RebindToSigned<AttentionFloatTag>;
using AttentionInt = hn::VFromD<AttentionIntTag>;
template <class T>
using AttentionQuads = hn::VFromD<hn::Repartition<T, AttentionIntTag>>;

/// Rows of a tile; with four vectors each, 24 accumulators if there are 32 registers.
inline constexpr std::size_t kInt8TileRows = kManyRegisters ? 6 : 2;

template <class Dots>
HWY_INLINE AttentionInt dot_quads(AttentionQuads<std::uint8_t> a, AttentionQuads<std::int8_t> b, AttentionInt sum) {
  return Dots::add_quads(a, b, sum);
}
template <class Dots>
HWY_INLINE AttentionInt dot_quads(AttentionQuads<std::int8_t> a, AttentionQuads<std::uint8_t> b, AttentionInt sum) {
  return Dots::add_quads(b, a, sum);
}

template <class T>
HWY_INLINE AttentionQuads<T> load_quads(const T* src) {
  return hn::LoadU(hn::Repartition<T, AttentionIntTag>(), src);
}

template <class Dots, std::size_t kVectors, class Row, class Vector>
HWY_INLINE void accumulate_quads(Row row, Vector v0, Vector v1, Vector v2, Vector v3, AttentionInt& c0,
                                 AttentionInt& c1, AttentionInt& c2, AttentionInt& c3) {
  c0 = dot_quads<Dots>(v0, row, c0);
  if constexpr (kVectors > 1) {
    c1 = dot_quads<Dots>(v1, row, c1);
    c2 = dot_quads<Dots>(v2, row, c2);
    c3 = dot_quads<Dots>(v3, row, c3);
  }
}

/// Adds the products of `quads` quads to every row's `starts` value and passes its kVectors (1 or 4) vectors to
/// store(row, c0, c1, c2, c3). Rows are `row_stride` codes apart, the vectors of one quad and those of the next
/// `vector_stride`. One of the two sides is unsigned. Uses named variables, as multiply_code_tile does.
template <class Dots, std::size_t kRows, std::size_t kVectors, class R, class V, class Store>
HWY_INLINE void multiply_quads(const R* HWY_RESTRICT rows, std::size_t row_stride, const V* HWY_RESTRICT vectors,
                               std::size_t vector_stride, std::size_t quads, const std::int32_t* starts,
                               const Store& store) {
  static_assert((kVectors == 1 || kVectors == 4) && sizeof(R) == 1 && sizeof(V) == 1);
  const AttentionIntTag di32;
  const std::size_t bytes = 4 * hn::Lanes(di32);
  auto c00 = hn::Set(di32, starts[0]), c01 = c00, c02 = c00, c03 = c00;
  auto c10 = hn::Set(di32, starts[kRows > 1 ? 1 : 0]), c11 = c10, c12 = c10, c13 = c10;
  auto c20 = hn::Set(di32, starts[kRows > 2 ? 2 : 0]), c21 = c20, c22 = c20, c23 = c20;
  auto c30 = hn::Set(di32, starts[kRows > 3 ? 3 : 0]), c31 = c30, c32 = c30, c33 = c30;
  auto c40 = hn::Set(di32, starts[kRows > 4 ? 4 : 0]), c41 = c40, c42 = c40, c43 = c40;
  auto c50 = hn::Set(di32, starts[kRows > 5 ? 5 : 0]), c51 = c50, c52 = c50, c53 = c50;
  for (std::size_t q = 0; q < quads; ++q) {
    const auto v0 = load_quads(vectors);
    const auto v1 = kVectors > 1 ? load_quads(vectors + bytes) : v0;
    const auto v2 = kVectors > 1 ? load_quads(vectors + 2 * bytes) : v0;
    const auto v3 = kVectors > 1 ? load_quads(vectors + 3 * bytes) : v0;
    accumulate_quads<Dots, kVectors>(broadcast_quad(di32, rows), v0, v1, v2, v3, c00, c01, c02, c03);
    if constexpr (kRows > 1) {
      accumulate_quads<Dots, kVectors>(broadcast_quad(di32, rows + row_stride), v0, v1, v2, v3, c10, c11, c12, c13);
    }
    if constexpr (kRows > 2) {
      accumulate_quads<Dots, kVectors>(broadcast_quad(di32, rows + 2 * row_stride), v0, v1, v2, v3, c20, c21, c22, c23);
    }
    if constexpr (kRows > 3) {
      accumulate_quads<Dots, kVectors>(broadcast_quad(di32, rows + 3 * row_stride), v0, v1, v2, v3, c30, c31, c32, c33);
    }
    if constexpr (kRows > 4) {
      accumulate_quads<Dots, kVectors>(broadcast_quad(di32, rows + 4 * row_stride), v0, v1, v2, v3, c40, c41, c42, c43);
    }
    if constexpr (kRows > 5) {
      accumulate_quads<Dots, kVectors>(broadcast_quad(di32, rows + 5 * row_stride), v0, v1, v2, v3, c50, c51, c52, c53);
    }
    rows += 4;
    vectors += vector_stride;
  }
  store(0, c00, c01, c02, c03);
  if constexpr (kRows > 1) store(1, c10, c11, c12, c13);
  if constexpr (kRows > 2) store(2, c20, c21, c22, c23);
  if constexpr (kRows > 3) store(3, c30, c31, c32, c33);
  if constexpr (kRows > 4) store(4, c40, c41, c42, c43);
  if constexpr (kRows > 5) store(5, c50, c51, c52, c53);
}

/// Does the same for `count` <= kRows rows.
template <class Dots, std::size_t kRows, std::size_t kVectors, class R, class V, class Store>
HWY_INLINE void multiply_quads_of(std::size_t count, const R* rows, std::size_t row_stride, const V* vectors,
                                  std::size_t vector_stride, std::size_t quads, const std::int32_t* starts,
                                  const Store& store) {
  if (count == kRows) {
    multiply_quads<Dots, kRows, kVectors>(rows, row_stride, vectors, vector_stride, quads, starts, store);
  } else if constexpr (kRows > 1) {
    multiply_quads_of<Dots, kRows - 1, kVectors>(count, rows, row_stride, vectors, vector_stride, quads, starts, store);
  }
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_ATTENTION_INT8_ATTENTION_TILE_INL_H_
