// Tiles of quantized products: a panel of weights times a few tokens, with INT8 or F32 activations.
#if defined(BALLAST_KERNELS_QUANTIZED_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_QUANTIZED_TILE_INL_H_
#undef BALLAST_KERNELS_QUANTIZED_TILE_INL_H_
#else
#define BALLAST_KERNELS_QUANTIZED_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/quantized_storage.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

using QuantFloatTag = hn::ScalableTag<float>;
using QuantIntTag = hn::RebindToSigned<QuantFloatTag>;
using QuantByteTag = hn::Repartition<std::uint8_t, QuantIntTag>;
using QuantFloat = hn::VFromD<QuantFloatTag>;
using QuantInt = hn::VFromD<QuantIntTag>;
using QuantBytes = hn::VFromD<QuantByteTag>;

/// Tokens of a tile: two INT32 and two F32 accumulators each.
inline constexpr std::size_t kTileTokens = kManyRegisters ? 6 : 2;

/// One panel of weights, its codes at `bits` bits (an INT4 panel may have been expanded to 8).
struct PanelView {
  const std::uint8_t* codes;
  const std::uint16_t* scales;
  const std::uint8_t* zeros;  ///< null when symmetric
  const std::uint16_t* outliers;
  std::size_t outlier_count;
  bool bf16_scales;
  bool bf16_outliers;
  int default_zero;
  const GroupLayout* layout;
};

HWY_INLINE PanelView panel_view(const QuantizedMatrix::Storage& s, std::size_t panel) {
  return {s.panel_codes(panel),    s.panel_scales(panel),    s.panel_zeros(panel),
          s.panel_outliers(panel), s.outlier_columns.size(), s.bf16_scales,
          s.bf16_outliers,         s.default_zero(),         &s.layout};
}

/// The four vectors of a pair of quads: quad 0 and 1 of vector 0, quad 0 and 1 of vector 1.
template <int kBits>
HWY_INLINE void load_pair(const std::uint8_t* HWY_RESTRICT codes, QuantBytes& w00, QuantBytes& w10, QuantBytes& w01,
                          QuantBytes& w11) {
  const QuantByteTag du8;
  const std::size_t bytes = hn::Lanes(du8);
  if constexpr (kBits == 8) {
    w00 = hn::LoadU(du8, codes);
    w01 = hn::LoadU(du8, codes + bytes);
    w10 = hn::LoadU(du8, codes + 2 * bytes);
    w11 = hn::LoadU(du8, codes + 3 * bytes);
  } else {
    const hn::Repartition<std::uint16_t, QuantIntTag> du16;
    const auto low = hn::Set(du8, 15);
    const auto v0 = hn::LoadU(du8, codes);
    const auto v1 = hn::LoadU(du8, codes + bytes);
    w00 = hn::And(v0, low);
    w01 = hn::And(v1, low);
    w10 = hn::And(hn::BitCast(du8, hn::ShiftRight<4>(hn::BitCast(du16, v0))), low);
    w11 = hn::And(hn::BitCast(du8, hn::ShiftRight<4>(hn::BitCast(du16, v1))), low);
  }
}

template <int kBits>
HWY_INLINE std::size_t pair_bytes() {
  return 2 * hn::Lanes(QuantByteTag()) * kBits / 4;
}

/// 16-bit floats of either kind; the branch is the same for a whole matrix.
HWY_INLINE QuantFloat load_16_bit(const std::uint16_t* HWY_RESTRICT src, bool bf16) {
  const QuantFloatTag df;
  return bf16 ? load_as_float(df, reinterpret_cast<const hwy::bfloat16_t*>(src))
              : load_as_float(df, reinterpret_cast<const hwy::float16_t*>(src));
}

HWY_INLINE QuantInt load_zeros(const PanelView& panel, std::size_t at) {
  const QuantIntTag di32;
  if (panel.zeros == nullptr) return hn::Set(di32, panel.default_zero);
  return hn::PromoteTo(di32, hn::LoadU(hn::Rebind<std::uint8_t, QuantIntTag>(), panel.zeros + at));
}

/// Four consecutive INT8 activations in every lane.
HWY_INLINE hn::VFromD<hn::Repartition<std::int8_t, QuantIntTag>> broadcast_quad(const std::int8_t* codes) {
  std::int32_t quad;
  std::memcpy(&quad, codes, sizeof(quad));
  return hn::BitCast(hn::Repartition<std::int8_t, QuantIntTag>(), hn::Set(QuantIntTag(), quad));
}

/// Sums of products of one token's pair of quads with two vectors of rows.
HWY_INLINE void multiply_pair(const std::int8_t* HWY_RESTRICT src, QuantBytes w00, QuantBytes w10, QuantBytes w01,
                              QuantBytes w11, QuantInt& i0, QuantInt& i1) {
  const QuantIntTag di32;
  const auto a0 = broadcast_quad(src);
  const auto a1 = broadcast_quad(src + 4);
  i0 = hn::SumOfMulQuadAccumulate(di32, w00, a0, i0);
  i1 = hn::SumOfMulQuadAccumulate(di32, w01, a0, i1);
  i0 = hn::SumOfMulQuadAccumulate(di32, w10, a1, i0);
  i1 = hn::SumOfMulQuadAccumulate(di32, w11, a1, i1);
}

/// What zero points other than the default take from a token's group, whose codes add up to `sum`.
HWY_INLINE void subtract_zeros(std::int32_t sum, QuantFloat zero0, QuantFloat zero1, QuantFloat& f0, QuantFloat& f1) {
  const auto sums = hn::Set(QuantFloatTag(), static_cast<float>(sum));
  f0 = hn::NegMulAdd(zero0, sums, f0);
  f1 = hn::NegMulAdd(zero1, sums, f1);
}

HWY_INLINE void multiply_both(float factor, QuantFloat& f0, QuantFloat& f1) {
  const auto v = hn::Set(QuantFloatTag(), factor);
  f0 = hn::Mul(f0, v);
  f1 = hn::Mul(f1, v);
}

/// Adds activation * weight for one outlier column of one token.
HWY_INLINE void add_outlier(float activation, QuantFloat w0, QuantFloat w1, QuantFloat& c0, QuantFloat& c1) {
  const auto a = hn::Set(QuantFloatTag(), activation);
  c0 = hn::MulAdd(a, w0, c0);
  c1 = hn::MulAdd(a, w1, c1);
}

/// Multiplies kTokens tokens, from `first` on, with a panel and hands each token's two vectors to store(token, c0, c1).
/// A group starts from -(default zero) * sum of codes, so that symmetric weights need nothing more; F32 holds its
/// integers exactly up to 2^24.
template <std::size_t kTokens, int kBits, class Store>
HWY_INLINE void multiply_int8_tile(const Int8Activations::Storage& src, std::size_t first, const PanelView& panel,
                                   const Store& store) {
  const QuantFloatTag df;
  const QuantIntTag di32;
  const std::size_t lanes = hn::Lanes(df);
  const GroupLayout& layout = *panel.layout;
  const std::size_t stride = layout.padded_cols();
  const std::size_t groups = layout.groups;
  const bool group_scales = src.format.scale_per_group;
  const std::int8_t* a = src.codes.data() + first * stride;
  const float* scales = src.scales.data() + first * groups;
  const std::int32_t* sums = src.sums.data() + first * groups;
  const std::int32_t* offsets = (panel.default_zero == 8 ? src.offsets4 : src.offsets8).data() + first * groups;
  const std::uint8_t* codes = panel.codes;
  auto c00 = hn::Zero(df), c01 = c00;
  auto c10 = c00, c11 = c00;
  auto c20 = c00, c21 = c00;
  auto c30 = c00, c31 = c00;
  auto c40 = c00, c41 = c00;
  auto c50 = c00, c51 = c00;
  for (std::size_t g = 0; g < groups; ++g) {
    auto i00 = hn::Set(di32, offsets[g]);
    auto i01 = i00;
    auto i10 = kTokens > 1 ? hn::Set(di32, offsets[groups + g]) : i00;
    auto i11 = i10;
    auto i20 = kTokens > 2 ? hn::Set(di32, offsets[2 * groups + g]) : i00;
    auto i21 = i20;
    auto i30 = kTokens > 3 ? hn::Set(di32, offsets[3 * groups + g]) : i00;
    auto i31 = i30;
    auto i40 = kTokens > 4 ? hn::Set(di32, offsets[4 * groups + g]) : i00;
    auto i41 = i40;
    auto i50 = kTokens > 5 ? hn::Set(di32, offsets[5 * groups + g]) : i00;
    auto i51 = i50;
    const std::size_t pairs = layout.pairs_in(g);
    for (std::size_t p = 0; p < pairs; ++p) {
      QuantBytes w00, w10, w01, w11;
      load_pair<kBits>(codes, w00, w10, w01, w11);
      multiply_pair(a, w00, w10, w01, w11, i00, i01);
      if constexpr (kTokens > 1) multiply_pair(a + stride, w00, w10, w01, w11, i10, i11);
      if constexpr (kTokens > 2) multiply_pair(a + 2 * stride, w00, w10, w01, w11, i20, i21);
      if constexpr (kTokens > 3) multiply_pair(a + 3 * stride, w00, w10, w01, w11, i30, i31);
      if constexpr (kTokens > 4) multiply_pair(a + 4 * stride, w00, w10, w01, w11, i40, i41);
      if constexpr (kTokens > 5) multiply_pair(a + 5 * stride, w00, w10, w01, w11, i50, i51);
      codes += pair_bytes<kBits>();
      a += GroupLayout::kPairColumns;
    }
    auto f00 = hn::ConvertTo(df, i00), f01 = hn::ConvertTo(df, i01);
    auto f10 = hn::ConvertTo(df, i10), f11 = hn::ConvertTo(df, i11);
    auto f20 = hn::ConvertTo(df, i20), f21 = hn::ConvertTo(df, i21);
    auto f30 = hn::ConvertTo(df, i30), f31 = hn::ConvertTo(df, i31);
    auto f40 = hn::ConvertTo(df, i40), f41 = hn::ConvertTo(df, i41);
    auto f50 = hn::ConvertTo(df, i50), f51 = hn::ConvertTo(df, i51);
    const std::size_t at = g * 2 * lanes;
    if (panel.zeros != nullptr) {
      const auto default_zero = hn::Set(di32, panel.default_zero);
      const auto z0 = hn::ConvertTo(df, hn::Sub(load_zeros(panel, at), default_zero));
      const auto z1 = hn::ConvertTo(df, hn::Sub(load_zeros(panel, at + lanes), default_zero));
      subtract_zeros(sums[g], z0, z1, f00, f01);
      if constexpr (kTokens > 1) subtract_zeros(sums[groups + g], z0, z1, f10, f11);
      if constexpr (kTokens > 2) subtract_zeros(sums[2 * groups + g], z0, z1, f20, f21);
      if constexpr (kTokens > 3) subtract_zeros(sums[3 * groups + g], z0, z1, f30, f31);
      if constexpr (kTokens > 4) subtract_zeros(sums[4 * groups + g], z0, z1, f40, f41);
      if constexpr (kTokens > 5) subtract_zeros(sums[5 * groups + g], z0, z1, f50, f51);
    }
    if (group_scales) {
      multiply_both(scales[g], f00, f01);
      if constexpr (kTokens > 1) multiply_both(scales[groups + g], f10, f11);
      if constexpr (kTokens > 2) multiply_both(scales[2 * groups + g], f20, f21);
      if constexpr (kTokens > 3) multiply_both(scales[3 * groups + g], f30, f31);
      if constexpr (kTokens > 4) multiply_both(scales[4 * groups + g], f40, f41);
      if constexpr (kTokens > 5) multiply_both(scales[5 * groups + g], f50, f51);
    }
    const auto s0 = load_16_bit(panel.scales + at, panel.bf16_scales);
    const auto s1 = load_16_bit(panel.scales + at + lanes, panel.bf16_scales);
    c00 = hn::MulAdd(f00, s0, c00), c01 = hn::MulAdd(f01, s1, c01);
    if constexpr (kTokens > 1) c10 = hn::MulAdd(f10, s0, c10), c11 = hn::MulAdd(f11, s1, c11);
    if constexpr (kTokens > 2) c20 = hn::MulAdd(f20, s0, c20), c21 = hn::MulAdd(f21, s1, c21);
    if constexpr (kTokens > 3) c30 = hn::MulAdd(f30, s0, c30), c31 = hn::MulAdd(f31, s1, c31);
    if constexpr (kTokens > 4) c40 = hn::MulAdd(f40, s0, c40), c41 = hn::MulAdd(f41, s1, c41);
    if constexpr (kTokens > 5) c50 = hn::MulAdd(f50, s0, c50), c51 = hn::MulAdd(f51, s1, c51);
  }
  if (!group_scales) {
    multiply_both(scales[0], c00, c01);
    if constexpr (kTokens > 1) multiply_both(scales[groups], c10, c11);
    if constexpr (kTokens > 2) multiply_both(scales[2 * groups], c20, c21);
    if constexpr (kTokens > 3) multiply_both(scales[3 * groups], c30, c31);
    if constexpr (kTokens > 4) multiply_both(scales[4 * groups], c40, c41);
    if constexpr (kTokens > 5) multiply_both(scales[5 * groups], c50, c51);
  }
  const std::size_t outliers = panel.outlier_count;
  const float* o = src.outliers.data() + first * outliers;
  for (std::size_t j = 0; j < outliers; ++j) {
    const auto w0 = load_16_bit(panel.outliers + j * 2 * lanes, panel.bf16_outliers);
    const auto w1 = load_16_bit(panel.outliers + j * 2 * lanes + lanes, panel.bf16_outliers);
    add_outlier(o[j], w0, w1, c00, c01);
    if constexpr (kTokens > 1) add_outlier(o[outliers + j], w0, w1, c10, c11);
    if constexpr (kTokens > 2) add_outlier(o[2 * outliers + j], w0, w1, c20, c21);
    if constexpr (kTokens > 3) add_outlier(o[3 * outliers + j], w0, w1, c30, c31);
    if constexpr (kTokens > 4) add_outlier(o[4 * outliers + j], w0, w1, c40, c41);
    if constexpr (kTokens > 5) add_outlier(o[5 * outliers + j], w0, w1, c50, c51);
  }
  store(first, c00, c01);
  if constexpr (kTokens > 1) store(first + 1, c10, c11);
  if constexpr (kTokens > 2) store(first + 2, c20, c21);
  if constexpr (kTokens > 3) store(first + 3, c30, c31);
  if constexpr (kTokens > 4) store(first + 4, c40, c41);
  if constexpr (kTokens > 5) store(first + 5, c50, c51);
}

/// The same for up to kTokens tokens.
template <std::size_t kTokens, int kBits, class Store>
HWY_INLINE void multiply_int8_tile_of(std::size_t tokens, const Int8Activations::Storage& src, std::size_t first,
                                      const PanelView& panel, const Store& store) {
  if (tokens >= kTokens) {
    multiply_int8_tile<kTokens, kBits>(src, first, panel, store);
  } else if constexpr (kTokens > 1) {
    multiply_int8_tile_of<kTokens - 1, kBits>(tokens, src, first, panel, store);
  }
}

/// Weights of one quad's column `kColumn` as F32, without their scale.
template <int kColumn>
HWY_INLINE QuantFloat column_of(QuantBytes quad, QuantInt zeros) {
  const QuantIntTag di32;
  const QuantFloatTag df;
  const hn::RebindToUnsigned<QuantIntTag> du32;
  const auto code = hn::And(hn::ShiftRight<8 * kColumn>(hn::BitCast(du32, quad)), hn::Set(du32, 255));
  return hn::ConvertTo(df, hn::Sub(hn::BitCast(di32, code), zeros));
}

/// Calls body(column, w0, w1) for the 8 columns of a pair of quads.
template <int kBits, class Body>
HWY_INLINE void for_columns_of_pair(const std::uint8_t* codes, QuantInt z0, QuantInt z1, const Body& body) {
  QuantBytes w00, w10, w01, w11;
  load_pair<kBits>(codes, w00, w10, w01, w11);
  body(0, column_of<0>(w00, z0), column_of<0>(w01, z1));
  body(1, column_of<1>(w00, z0), column_of<1>(w01, z1));
  body(2, column_of<2>(w00, z0), column_of<2>(w01, z1));
  body(3, column_of<3>(w00, z0), column_of<3>(w01, z1));
  body(4, column_of<0>(w10, z0), column_of<0>(w11, z1));
  body(5, column_of<1>(w10, z0), column_of<1>(w11, z1));
  body(6, column_of<2>(w10, z0), column_of<2>(w11, z1));
  body(7, column_of<3>(w10, z0), column_of<3>(w11, z1));
}

/// F32 activations: kTokens tokens of `src` [kTokens][padded_cols], which has 0 in padded columns; their values in
/// outlier columns are in `outliers` [kTokens][outlier columns]. Decodes weights in registers.
template <std::size_t kTokens, int kBits, class Store>
HWY_INLINE void multiply_float_tile(const float* HWY_RESTRICT src, const float* HWY_RESTRICT outliers,
                                    const PanelView& panel, const Store& store) {
  const QuantFloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  const GroupLayout& layout = *panel.layout;
  const std::size_t stride = layout.padded_cols();
  const std::uint8_t* codes = panel.codes;
  auto c00 = hn::Zero(df), c01 = c00;
  auto c10 = c00, c11 = c00;
  auto c20 = c00, c21 = c00;
  auto c30 = c00, c31 = c00;
  const float* a = src;
  for (std::size_t g = 0; g < layout.groups; ++g) {
    const std::size_t at = g * 2 * lanes;
    const auto z0 = load_zeros(panel, at);
    const auto z1 = load_zeros(panel, at + lanes);
    auto g00 = hn::Zero(df), g01 = g00;
    auto g10 = g00, g11 = g00;
    auto g20 = g00, g21 = g00;
    auto g30 = g00, g31 = g00;
    const std::size_t pairs = layout.pairs_in(g);
    for (std::size_t p = 0; p < pairs; ++p) {
      for_columns_of_pair<kBits>(codes, z0, z1, [&](std::size_t column, QuantFloat w0, QuantFloat w1) HWY_ATTR {
        add_outlier(a[column], w0, w1, g00, g01);
        if constexpr (kTokens > 1) add_outlier(a[stride + column], w0, w1, g10, g11);
        if constexpr (kTokens > 2) add_outlier(a[2 * stride + column], w0, w1, g20, g21);
        if constexpr (kTokens > 3) add_outlier(a[3 * stride + column], w0, w1, g30, g31);
      });
      codes += pair_bytes<kBits>();
      a += GroupLayout::kPairColumns;
    }
    const auto s0 = load_16_bit(panel.scales + at, panel.bf16_scales);
    const auto s1 = load_16_bit(panel.scales + at + lanes, panel.bf16_scales);
    c00 = hn::MulAdd(g00, s0, c00);
    c01 = hn::MulAdd(g01, s1, c01);
    if constexpr (kTokens > 1) c10 = hn::MulAdd(g10, s0, c10), c11 = hn::MulAdd(g11, s1, c11);
    if constexpr (kTokens > 2) c20 = hn::MulAdd(g20, s0, c20), c21 = hn::MulAdd(g21, s1, c21);
    if constexpr (kTokens > 3) c30 = hn::MulAdd(g30, s0, c30), c31 = hn::MulAdd(g31, s1, c31);
  }
  const std::size_t count = panel.outlier_count;
  for (std::size_t j = 0; j < count; ++j) {
    const auto w0 = load_16_bit(panel.outliers + j * 2 * lanes, panel.bf16_outliers);
    const auto w1 = load_16_bit(panel.outliers + j * 2 * lanes + lanes, panel.bf16_outliers);
    add_outlier(outliers[j], w0, w1, c00, c01);
    if constexpr (kTokens > 1) add_outlier(outliers[count + j], w0, w1, c10, c11);
    if constexpr (kTokens > 2) add_outlier(outliers[2 * count + j], w0, w1, c20, c21);
    if constexpr (kTokens > 3) add_outlier(outliers[3 * count + j], w0, w1, c30, c31);
  }
  store(0, c00, c01);
  if constexpr (kTokens > 1) store(1, c10, c11);
  if constexpr (kTokens > 2) store(2, c20, c21);
  if constexpr (kTokens > 3) store(3, c30, c31);
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_QUANTIZED_TILE_INL_H_
