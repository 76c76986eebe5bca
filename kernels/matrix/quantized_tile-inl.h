// Register tiles of quantized products: a panel of weights times a few rows of INT8 codes.
#if defined(BALLAST_KERNELS_MATRIX_QUANTIZED_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_MATRIX_QUANTIZED_TILE_INL_H_
#undef BALLAST_KERNELS_MATRIX_QUANTIZED_TILE_INL_H_
#else
#define BALLAST_KERNELS_MATRIX_QUANTIZED_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "kernels/matrix/quantized_codes-inl.h"
#include "kernels/matrix/quantized_storage.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

using QuantFloat = hn::VFromD<FloatTag>;

/// Rows of codes in a tile: two INT32 and two F32 accumulators each. Every number of rows up to this is compiled for
/// every kind of matrix, so it is large only where that is faster: most instructions of PairwiseDots are needed for
/// each row.
#ifdef BALLAST_SMALL_TILES  // clang's sanitizers take many minutes to compile the largest ones
template <class Dots>
inline constexpr std::size_t kTileRowsOfCodes = 2;
#else
template <class Dots>
inline constexpr std::size_t kTileRowsOfCodes = kManyRegisters ? 6 : 2;
#if HWY_ARCH_X86
template <>
inline constexpr std::size_t kTileRowsOfCodes<PairwiseDots> = HWY_TARGET == HWY_SSE2 ? 1
                                                              : kManyRegisters       ? 4
                                                                                     : 2;
#endif
#endif

/// One panel of weights; codes of fewer bits than 8 may have been expanded to 8.
struct PanelView {
  const std::uint8_t* codes;
  std::size_t code_gap;       ///< bytes between the codes of two groups, or of two pairs that share a block
  const std::uint8_t* zeros;  ///< null if all are the default
  const std::uint16_t* outliers;
  std::size_t outlier_count;
  bool bf16_outliers;
  int default_zero;
  int sign_flip;                       ///< what was subtracted from 8-bit codes
  const std::byte* group_headers;      ///< the first group's
  std::size_t header_bytes;            ///< from a group to the next one in the same block
  std::size_t header_step;             ///< from a group to the next one in another block
  std::size_t minimums_at;             ///< offset within a header; 0: no minimums
  const std::uint16_t* shared_scales;  ///< the values that factors multiply; null if groups have their own scales
  std::size_t shared_step;             ///< from one to the next, of 2^shared_shift groups
  int shared_shift;
  bool bf16_scales;
  const GroupLayout* layout;

  /// Returns the values that the factors of a group multiply; null if it has no factors.
  HWY_INLINE const std::uint16_t* shared(std::size_t group) const {
    return shared_scales == nullptr ? nullptr : shared_scales + (group >> shared_shift) * shared_step;
  }
};

HWY_INLINE PanelView panel_view(const QuantizedMatrix::Storage& s, std::size_t panel) {
  return {s.panel_codes(panel),
          s.heads_of_block_bytes(),
          s.panel_zeros(panel),
          s.panel_outliers(panel),
          s.form.outlier_columns.size(),
          s.form.bf16_outliers,
          s.default_zero(),
          s.sign_flip,
          s.panel(panel),
          s.head_bytes(),
          s.group_bytes() - (s.layout.groups_of_block - 1) * s.head_bytes(),
          s.has_minimums() ? s.scale_bytes() : 0,
          s.panel_shared_scales(panel),
          s.shared_scale_values(),
          s.shared_shift,
          s.form.bf16_scales,
          &s.layout};
}

/// The panel that a thread multiplies next, fetched into its second-level cache while it multiplies the one before it.
class NextPanel {
 public:
  NextPanel() = default;
  NextPanel(const std::byte* panel, std::size_t bytes) : at_(panel), end_(panel + bytes) {}

  /// Sets how often fetch() will be called.
  void spread(std::size_t times) {
    const auto lines = static_cast<std::size_t>(end_ - at_) / kCacheLine;
    bytes_at_once_ = (lines + times - 1) / times * kCacheLine;
  }

  HWY_INLINE void fetch() {
    for (std::size_t i = 0; i < bytes_at_once_ && at_ < end_; i += kCacheLine, at_ += kCacheLine) {
      __builtin_prefetch(at_, 0, 2);
    }
  }

 private:
  static constexpr std::size_t kCacheLine = 64;

  const std::byte* at_ = nullptr;
  const std::byte* end_ = nullptr;
  std::size_t bytes_at_once_ = 0;
};

/// Used instead of NextPanel where nothing is fetched.
struct NoNextPanel {
  void fetch() {}
};

/// Loads 16-bit floats of either type; the branch is the same for a whole matrix.
HWY_INLINE QuantFloat load_16_bit(const std::uint16_t* HWY_RESTRICT src, bool bf16) {
  const FloatTag df;
  return bf16 ? load_as_float(df, reinterpret_cast<const hwy::bfloat16_t*>(src))
              : load_as_float(df, reinterpret_cast<const hwy::float16_t*>(src));
}

/// Loads the 16-bit values of a group's rows, or, where `shared` is not null, its factors times the shared values.
HWY_INLINE void load_values(const std::byte* HWY_RESTRICT of_group, const std::uint16_t* HWY_RESTRICT shared, bool bf16,
                            QuantFloat& v0, QuantFloat& v1) {
  const FloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  if (shared == nullptr) {
    const auto* values = reinterpret_cast<const std::uint16_t*>(of_group);
    v0 = load_16_bit(values, bf16);
    v1 = load_16_bit(values + lanes, bf16);
    return;
  }
  const DotIntTag di32;
  const hn::Rebind<std::int8_t, DotIntTag> di8;
  const auto* factors = reinterpret_cast<const std::int8_t*>(of_group);
  v0 = hn::Mul(hn::ConvertTo(df, hn::PromoteTo(di32, hn::LoadU(di8, factors))), load_16_bit(shared, bf16));
  v1 = hn::Mul(hn::ConvertTo(df, hn::PromoteTo(di32, hn::LoadU(di8, factors + lanes))),
               load_16_bit(shared + lanes, bf16));
}

/// Loads the scales of a group, given its header. kOwn: the group has 16-bit scales of its own.
template <bool kOwn>
HWY_INLINE void load_scales(const PanelView& panel, const std::byte* HWY_RESTRICT head, std::size_t group,
                            QuantFloat& s0, QuantFloat& s1) {
  load_values(head, kOwn ? nullptr : panel.shared(group), panel.bf16_scales, s0, s1);
}

/// Loads the minimums of a group that has minimums.
HWY_INLINE void load_minimums(const PanelView& panel, const std::byte* HWY_RESTRICT head, std::size_t group,
                              QuantFloat& m0, QuantFloat& m1) {
  const std::uint16_t* scales = panel.shared(group);
  const std::uint16_t* shared = scales == nullptr ? nullptr : scales + 2 * hn::Lanes(FloatTag());
  load_values(head + panel.minimums_at, shared, panel.bf16_scales, m0, m1);
}

/// Loads the zero points of the codes as multiplied.
HWY_INLINE DotInt load_zeros(const PanelView& panel, std::size_t at) {
  const DotIntTag di32;
  if (panel.zeros == nullptr) return hn::Set(di32, panel.default_zero - panel.sign_flip);
  const auto zeros = hn::PromoteTo(di32, hn::LoadU(hn::Rebind<std::uint8_t, DotIntTag>(), panel.zeros + at));
  return hn::Sub(zeros, hn::Set(di32, panel.sign_flip));
}

/// Returns the initial value of a row's sums of a group, given the negated sum of its activations: -(zero .
/// activations). 8-bit codes with the default zero need no multiplication. (Shifting by other default zeros, in a path
/// of its own, gained 1.01 on Zen 4 and cost AVX2's prompts a tenth.)
template <class Dots, int kCodeBits>
HWY_INLINE void start_group(const PanelView& panel, std::size_t at, std::int32_t negated_sum, DotInt& i0, DotInt& i1) {
  const DotIntTag di32;
  if (kCodeBits == 8 && panel.zeros == nullptr) {
    i0 = Dots::kUnsignedCodes ? hn::ShiftLeft<7>(hn::Set(di32, negated_sum)) : hn::Zero(di32);
    i1 = i0;
  } else {
    const auto factor = hn::Set(di32, negated_sum);
    i0 = hn::Mul(load_zeros(panel, at), factor);
    i1 = hn::Mul(load_zeros(panel, at + hn::Lanes(di32)), factor);
  }
}

/// Adds one row's pair of quads times two vectors of rows of weights to its sums of a block.
template <class Dots, int kCodeBits>
HWY_INLINE void multiply_pair(const std::int8_t* HWY_RESTRICT src, DotBytes w00, DotBytes w10, DotBytes w01,
                              DotBytes w11, typename Dots::template BlockSum<kCodeBits>& b0,
                              typename Dots::template BlockSum<kCodeBits>& b1) {
  const auto a0 = broadcast_quad<std::int8_t>(DotIntTag(), src);
  const auto a1 = broadcast_quad<std::int8_t>(DotIntTag(), src + kQuadColumns);
  Dots::template add_pair<kCodeBits>(w00, w10, w01, w11, a0, a1, b0, b1);
}

/// Exchanges the sums of each pair of rows, where Dots pairs them.
template <class Dots, std::size_t kRows>
HWY_INLINE void exchange_pairs(DotInt& i00, DotInt& i01, DotInt& i10, DotInt& i11, DotInt& i20, DotInt& i21,
                               DotInt& i30, DotInt& i31, DotInt& i40, DotInt& i41, DotInt& i50, DotInt& i51) {
  if constexpr (Dots::kPairsRows) {
    Dots::exchange_rows(i00, i10);
    Dots::exchange_rows(i01, i11);
    if constexpr (kRows > 2) Dots::exchange_rows(i20, i30);
    if constexpr (kRows > 2) Dots::exchange_rows(i21, i31);
    if constexpr (kRows > 4) Dots::exchange_rows(i40, i50);
    if constexpr (kRows > 4) Dots::exchange_rows(i41, i51);
  }
}

HWY_INLINE void multiply_both(float factor, QuantFloat& f0, QuantFloat& f1) {
  const auto v = hn::Set(FloatTag(), factor);
  f0 = hn::Mul(f0, v);
  f1 = hn::Mul(f1, v);
}

/// Adds a token's group, its integers summed, to the token's result.
HWY_INLINE void add_group(QuantFloat f0, QuantFloat f1, bool scaled, float scale, QuantFloat s0, QuantFloat s1,
                          QuantFloat& c0, QuantFloat& c1) {
  if (scaled) multiply_both(scale, f0, f1);
  c0 = hn::MulAdd(f0, s0, c0);
  c1 = hn::MulAdd(f1, s1, c1);
}

/// Returns the integers of a token's group from its two planes.
HWY_INLINE QuantFloat join_planes(DotInt high, DotInt low) {
  const FloatTag df;
  return hn::MulAdd(hn::ConvertTo(df, high), hn::Set(df, static_cast<float>(kPlaneFactor)), hn::ConvertTo(df, low));
}

/// Subtracts a group's minimums from a token's result, given the negated sum of the group's codes.
template <std::size_t kPlanes>
HWY_INLINE void add_minimums(const std::int32_t* negated_sums, std::size_t groups, bool scaled, float scale,
                             QuantFloat m0, QuantFloat m1, QuantFloat& c0, QuantFloat& c1) {
  auto sum = static_cast<float>(negated_sums[0]);
  if constexpr (kPlanes == 2) sum = sum * float{kPlaneFactor} + static_cast<float>(negated_sums[groups]);
  const auto factor = hn::Set(FloatTag(), scaled ? sum * scale : sum);
  c0 = hn::MulAdd(factor, m0, c0);
  c1 = hn::MulAdd(factor, m1, c1);
}

/// Adds activation * weight for one outlier column of one token.
HWY_INLINE void add_outlier(float activation, QuantFloat w0, QuantFloat w1, QuantFloat& c0, QuantFloat& c1) {
  const auto a = hn::Set(FloatTag(), activation);
  c0 = hn::MulAdd(a, w0, c0);
  c1 = hn::MulAdd(a, w1, c1);
}

/// Blocks of a group in a panel with factors or minimums, or with groups of half a block, which may have these.
inline constexpr std::size_t kHalfABlock = ~std::size_t{0};
inline constexpr std::size_t kBlockOfFactors = kHalfABlock - 1;

/// Multiplies kTokens tokens of kPlanes rows of codes each, from token `first` on, with a panel of Codes, and passes
/// each token's two vectors to store(token, c0, c1). A group's integers are exact in F32 up to 2^24. kGroupBlocks:
/// blocks of every group, or one of the names above, or 0 if only the layout gives the number. Without a loop over one
/// block, sums stay in their registers.
template <class Dots, std::size_t kTokens, std::size_t kPlanes, class Codes, std::size_t kGroupBlocks, class Next,
          class Store>
HWY_INLINE void multiply_code_tile(const QuantizedActivations::Storage& src, std::size_t first, const PanelView& panel,
                                   Next& next, const Store& store) {
  constexpr int kCodeBits = Codes::kCodeBits;
  constexpr std::size_t kRows = kTokens * kPlanes;
  constexpr bool kHalves = kGroupBlocks == kHalfABlock;
  constexpr bool kScalesOnly = !kHalves && kGroupBlocks != kBlockOfFactors;
  static_assert(kRows <= 6 && (kPlanes == 1 || kPlanes == 2));
  const FloatTag df;
  const DotIntTag di32;
  const std::size_t lanes = hn::Lanes(df);
  const GroupLayout& layout = *panel.layout;
  const std::size_t stride = layout.padded_cols();
  const std::size_t groups = layout.groups;
  const bool group_scales = src.format.scale_per_group;
  const std::int8_t* a = src.codes.data() + first * kPlanes * stride;
  const float* scales = src.scales.data() + first * groups;
  const std::int32_t* sums = src.negated_sums.data() + first * kPlanes * groups;
  const std::uint8_t* codes = panel.codes;
  const std::byte* head = panel.group_headers;
  Next ahead = next;
  auto c00 = hn::Zero(df), c01 = c00;
  auto c10 = c00, c11 = c00;
  auto c20 = c00, c21 = c00;
  auto c30 = c00, c31 = c00;
  auto c40 = c00, c41 = c00;
  auto c50 = c00, c51 = c00;
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t at = g * 2 * lanes;
    auto i00 = hn::Zero(di32), i01 = i00;
    auto i10 = i00, i11 = i00;
    auto i20 = i00, i21 = i00;
    auto i30 = i00, i31 = i00;
    auto i40 = i00, i41 = i00;
    auto i50 = i00, i51 = i00;
    start_group<Dots, kCodeBits>(panel, at, sums[g], i00, i01);
    if constexpr (kRows > 1) start_group<Dots, kCodeBits>(panel, at, sums[groups + g], i10, i11);
    if constexpr (kRows > 2) start_group<Dots, kCodeBits>(panel, at, sums[2 * groups + g], i20, i21);
    if constexpr (kRows > 3) start_group<Dots, kCodeBits>(panel, at, sums[3 * groups + g], i30, i31);
    if constexpr (kRows > 4) start_group<Dots, kCodeBits>(panel, at, sums[4 * groups + g], i40, i41);
    if constexpr (kRows > 5) start_group<Dots, kCodeBits>(panel, at, sums[5 * groups + g], i50, i51);
    exchange_pairs<Dots, kRows>(i00, i01, i10, i11, i20, i21, i30, i31, i40, i41, i50, i51);
    const std::size_t blocks = !kScalesOnly ? 1 : kGroupBlocks != 0 ? kGroupBlocks : layout.blocks_in(g);
    for (std::size_t b = 0; b < blocks; ++b) {
      auto&& b00 = Dots::template begin<kCodeBits>(i00);
      auto&& b01 = Dots::template begin<kCodeBits>(i01);
      auto&& b10 = Dots::template begin<kCodeBits>(i10);
      auto&& b11 = Dots::template begin<kCodeBits>(i11);
      auto&& b20 = Dots::template begin<kCodeBits>(i20);
      auto&& b21 = Dots::template begin<kCodeBits>(i21);
      auto&& b30 = Dots::template begin<kCodeBits>(i30);
      auto&& b31 = Dots::template begin<kCodeBits>(i31);
      auto&& b40 = Dots::template begin<kCodeBits>(i40);
      auto&& b41 = Dots::template begin<kCodeBits>(i41);
      auto&& b50 = Dots::template begin<kCodeBits>(i50);
      auto&& b51 = Dots::template begin<kCodeBits>(i51);
      const auto multiply = [&](std::size_t, DotBytes w00, DotBytes w10, DotBytes w01, DotBytes w11) HWY_ATTR {
        if constexpr (Dots::kPairsRows) {  // an odd row is paired with itself, and the second sums are not used
          const auto add = [&](std::size_t row, DotInt& x0, DotInt& x1, DotInt& y0, DotInt& y1) HWY_ATTR {
            const std::size_t partner = HWY_MIN(row + 1, kRows - 1);
            Dots::add_rows(a + row * stride, a + partner * stride, w00, w10, w01, w11, x0, x1, y0, y1);
          };
          add(0, b00, b01, b10, b11);
          if constexpr (kRows > 2) add(2, b20, b21, b30, b31);
          if constexpr (kRows > 4) add(4, b40, b41, b50, b51);
        } else {
          multiply_pair<Dots, kCodeBits>(a, w00, w10, w01, w11, b00, b01);
          if constexpr (kRows > 1) multiply_pair<Dots, kCodeBits>(a + stride, w00, w10, w01, w11, b10, b11);
          if constexpr (kRows > 2) multiply_pair<Dots, kCodeBits>(a + 2 * stride, w00, w10, w01, w11, b20, b21);
          if constexpr (kRows > 3) multiply_pair<Dots, kCodeBits>(a + 3 * stride, w00, w10, w01, w11, b30, b31);
          if constexpr (kRows > 4) multiply_pair<Dots, kCodeBits>(a + 4 * stride, w00, w10, w01, w11, b40, b41);
          if constexpr (kRows > 5) multiply_pair<Dots, kCodeBits>(a + 5 * stride, w00, w10, w01, w11, b50, b51);
        }
        a += 2 * kQuadColumns;
      };
      if constexpr (!kHalves) {
        for_pairs_of_block<Codes>(codes, multiply);
      } else if (g % 2 == 0) {
        for_pairs_of_block<Codes, 0, 2>(codes, multiply);
      } else {
        for_pairs_of_block<Codes, 2, 4>(codes, multiply);
      }
      Dots::template end<kCodeBits>(b00, i00);
      Dots::template end<kCodeBits>(b01, i01);
      Dots::template end<kCodeBits>(b10, i10);
      Dots::template end<kCodeBits>(b11, i11);
      Dots::template end<kCodeBits>(b20, i20);
      Dots::template end<kCodeBits>(b21, i21);
      Dots::template end<kCodeBits>(b30, i30);
      Dots::template end<kCodeBits>(b31, i31);
      Dots::template end<kCodeBits>(b40, i40);
      Dots::template end<kCodeBits>(b41, i41);
      Dots::template end<kCodeBits>(b50, i50);
      Dots::template end<kCodeBits>(b51, i51);
      if (kHalves && g % 2 == 0) continue;
      codes += block_bytes<Codes::kBits>();
      ahead.fetch();
    }
    if (!kHalves || g % 2 != 0) codes += panel.code_gap;
    exchange_pairs<Dots, kRows>(i00, i01, i10, i11, i20, i21, i30, i31, i40, i41, i50, i51);
    QuantFloat s0, s1;
    load_scales<kScalesOnly>(panel, head, g, s0, s1);
    if constexpr (kPlanes == 2) {
      add_group(join_planes(i00, i10), join_planes(i01, i11), true, scales[g], s0, s1, c00, c01);
      if constexpr (kTokens > 1) {
        add_group(join_planes(i20, i30), join_planes(i21, i31), true, scales[groups + g], s0, s1, c10, c11);
      }
      if constexpr (kTokens > 2) {
        add_group(join_planes(i40, i50), join_planes(i41, i51), true, scales[2 * groups + g], s0, s1, c20, c21);
      }
    } else {
      const auto add = [&](std::size_t token, DotInt i0, DotInt i1, QuantFloat& c0, QuantFloat& c1) HWY_ATTR {
        add_group(hn::ConvertTo(df, i0), hn::ConvertTo(df, i1), group_scales, scales[token * groups + g], s0, s1, c0,
                  c1);
      };
      add(0, i00, i01, c00, c01);
      if constexpr (kTokens > 1) add(1, i10, i11, c10, c11);
      if constexpr (kTokens > 2) add(2, i20, i21, c20, c21);
      if constexpr (kTokens > 3) add(3, i30, i31, c30, c31);
      if constexpr (kTokens > 4) add(4, i40, i41, c40, c41);
      if constexpr (kTokens > 5) add(5, i50, i51, c50, c51);
    }
    if (!kScalesOnly && panel.minimums_at != 0) {
      QuantFloat m0, m1;
      load_minimums(panel, head, g, m0, m1);
      const bool scaled = kPlanes == 2 || group_scales;
      const auto add = [&](std::size_t token, QuantFloat& c0, QuantFloat& c1) HWY_ATTR {
        add_minimums<kPlanes>(sums + token * kPlanes * groups + g, groups, scaled, scales[token * groups + g], m0, m1,
                              c0, c1);
      };
      add(0, c00, c01);
      if constexpr (kTokens > 1) add(1, c10, c11);
      if constexpr (kTokens > 2) add(2, c20, c21);
      if constexpr (kTokens > 3) add(3, c30, c31);
      if constexpr (kTokens > 4) add(4, c40, c41);
      if constexpr (kTokens > 5) add(5, c50, c51);
    }
    head += kHalves && g % 2 == 0 ? panel.header_bytes : panel.header_step;
  }
  if (kPlanes == 1 && !group_scales) {
    multiply_both(scales[0], c00, c01);
    if constexpr (kTokens > 1) multiply_both(scales[groups], c10, c11);
    if constexpr (kTokens > 2) multiply_both(scales[2 * groups], c20, c21);
    if constexpr (kTokens > 3) multiply_both(scales[3 * groups], c30, c31);
    if constexpr (kTokens > 4) multiply_both(scales[4 * groups], c40, c41);
    if constexpr (kTokens > 5) multiply_both(scales[5 * groups], c50, c51);
  }
  next = ahead;
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

/// Multiplies kLeast to kTokens tokens.
template <class Dots, std::size_t kTokens, std::size_t kLeast, std::size_t kPlanes, class Codes,
          std::size_t kGroupBlocks, class Next, class Store>
HWY_INLINE void multiply_code_tile_of(std::size_t tokens, const QuantizedActivations::Storage& src, std::size_t first,
                                      const PanelView& panel, Next& next, const Store& store) {
  if (tokens >= kTokens) {
    multiply_code_tile<Dots, kTokens, kPlanes, Codes, kGroupBlocks>(src, first, panel, next, store);
  } else if constexpr (kTokens > kLeast) {
    multiply_code_tile_of<Dots, kTokens - 1, kLeast, kPlanes, Codes, kGroupBlocks>(tokens, src, first, panel, next,
                                                                                   store);
  }
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_MATRIX_QUANTIZED_TILE_INL_H_
