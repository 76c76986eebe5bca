// Quantized products of many tokens with AMX. The results are bit-identical to those of the vector tiles.
#if defined(BALLAST_KERNELS_MATRIX_AMX_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_MATRIX_AMX_PRODUCTS_INL_H_
#undef BALLAST_KERNELS_MATRIX_AMX_PRODUCTS_INL_H_
#else
#define BALLAST_KERNELS_MATRIX_AMX_PRODUCTS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "kernels/matrix/amx.h"
#include "kernels/matrix/quantized_tile-inl.h"

// A panel of two vectors of 16 rows with a byte for each code is two columns of tiles, whose quads are 128 bytes apart.
#undef BALLAST_AMX_PRODUCTS
#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX3
#define BALLAST_AMX_PRODUCTS 1
#else
#define BALLAST_AMX_PRODUCTS 0
#endif

#if BALLAST_AMX_PRODUCTS

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// Multiplies a panel with blocks of 32 rows of codes: 32 tokens, or 16 tokens with two planes each.
template <class Tiles, std::size_t kPlanes>
class AmxProducts {
 public:
  static constexpr std::size_t kTokens = 2 * kAmxRows / kPlanes;

  AmxProducts(const QuantizedActivations::Storage& src, const PanelView& panel)
      : src_(src), panel_(panel), layout_(*panel.layout), blocks_of_tile_(even_groups(layout_) ? 2 : 1) {
    AmxShapes shapes;
    const auto shape = [&](std::size_t tile, std::size_t rows, std::size_t row_bytes) {
      shapes.rows[tile] = static_cast<std::uint8_t>(rows);
      shapes.row_bytes[tile] = static_cast<std::uint16_t>(row_bytes);
    };
    for (const std::size_t sums : {kSums00, kSums01, kSums10, kSums11}) shape(sums, kAmxRows, kAmxRowBytes);
    for (const std::size_t codes : {kTokens0, kTokens1}) shape(codes, kAmxRows, blocks_of_tile_ * kBlockColumns);
    for (const std::size_t codes : {kWeights0, kWeights1}) shape(codes, blocks_of_tile_ * kBlockQuads, kAmxRowBytes);
    tiles_.configure(shapes);
  }
  AmxProducts(const AmxProducts&) = delete;
  AmxProducts& operator=(const AmxProducts&) = delete;
  ~AmxProducts() { tiles_.release(); }

  /// Multiplies kTokens tokens and passes each one's products to store(token, c0, c1).
  template <class Store>
  void multiply(std::size_t first, const Store& store) {
    const std::size_t groups = layout_.groups;
    const std::int8_t* a = src_.codes.data() + first * kPlanes * layout_.padded_cols();
    const std::uint8_t* codes = panel_.codes;
    for (std::size_t g = 0; g < groups; ++g) {
      sum_group(layout_.blocks_in(g), a, codes);
      codes += panel_.code_gap;
      add_group_to_results(first, g);
    }
    const bool group_scales = src_.format.scale_per_group;
    for (std::size_t i = 0; i < kTokens; ++i) {
      const FloatTag df;
      auto c0 = hn::Load(df, results_ + i * kWidth);
      auto c1 = hn::Load(df, results_ + i * kWidth + kLanes);
      if (kPlanes == 1 && !group_scales) multiply_both(src_.scales.data()[(first + i) * groups], c0, c1);
      const float* outliers = src_.outliers.data() + (first + i) * panel_.outlier_count;
      for (std::size_t j = 0; j < panel_.outlier_count; ++j) {
        add_outlier(outliers[j], load_16_bit(panel_.outliers + j * kWidth, panel_.bf16_outliers),
                    load_16_bit(panel_.outliers + j * kWidth + kLanes, panel_.bf16_outliers), c0, c1);
      }
      store(first + i, c0, c1);
    }
  }

 private:
  // kSums<i><j> are the products of kTokens<i> and kWeights<j>.
  enum Tile : int { kSums00, kSums01, kSums10, kSums11, kTokens0, kTokens1, kWeights0, kWeights1 };
  static constexpr std::size_t kLanes = 16;
  static constexpr std::size_t kWidth = 2 * kLanes;
  static_assert(hn::MaxLanes(DotIntTag()) == kLanes);

  /// Returns whether two blocks can fill the 64 bytes of a tile's rows: all groups have an even number of blocks.
  /// Otherwise, all tiles contain one block.
  static bool even_groups(const GroupLayout& layout) {
    return layout.group_blocks % 2 == 0 && layout.blocks_in(layout.groups - 1) % 2 == 0;
  }

  /// Sums the integers of a group for all rows and tokens. Moves `a` and `codes` on to the next group.
  void sum_group(std::size_t blocks, const std::int8_t*& a, const std::uint8_t*& codes) {
    const std::size_t stride = layout_.padded_cols();
    tiles_.template zero<kSums00>();
    tiles_.template zero<kSums01>();
    tiles_.template zero<kSums10>();
    tiles_.template zero<kSums11>();
    for (std::size_t b = 0; b < blocks; b += blocks_of_tile_) {
      tiles_.template load<kTokens0>(a, stride);
      tiles_.template load<kWeights0>(codes, 2 * kAmxRowBytes);
      tiles_.template multiply<kSums00, kTokens0, kWeights0>();
      tiles_.template load<kWeights1>(codes + kAmxRowBytes, 2 * kAmxRowBytes);
      tiles_.template multiply<kSums01, kTokens0, kWeights1>();
      tiles_.template load<kTokens1>(a + kAmxRows * stride, stride);
      tiles_.template multiply<kSums10, kTokens1, kWeights0>();
      tiles_.template multiply<kSums11, kTokens1, kWeights1>();
      a += blocks_of_tile_ * kBlockColumns;
      codes += blocks_of_tile_ * block_bytes<8>();
    }
    constexpr std::size_t kStride = kWidth * sizeof(std::int32_t);
    tiles_.template store<kSums00>(sums_, kStride);
    tiles_.template store<kSums01>(sums_ + kLanes, kStride);
    tiles_.template store<kSums10>(sums_ + kAmxRows * kWidth, kStride);
    tiles_.template store<kSums11>(sums_ + kAmxRows * kWidth + kLanes, kStride);
  }

  /// Loads the integers of a row of codes, less the zero points.
  HWY_INLINE void load_sums(std::size_t first, std::size_t group, std::size_t row, DotInt& i0, DotInt& i1) const {
    const DotIntTag di32;
    const std::int32_t negated = src_.negated_sums.data()[(first * kPlanes + row) * layout_.groups + group];
    start_group<VnniDots, 8>(panel_, group * kWidth, negated, i0, i1);
    i0 = hn::Add(i0, hn::Load(di32, sums_ + row * kWidth));
    i1 = hn::Add(i1, hn::Load(di32, sums_ + row * kWidth + kLanes));
  }

  void add_group_to_results(std::size_t first, std::size_t group) {
    const FloatTag df;
    const bool scaled = kPlanes == 2 || src_.format.scale_per_group;
    QuantFloat s0, s1;
    const std::byte* head = panel_.group_headers + group * panel_.header_step;
    load_scales<false>(panel_, head, group, s0, s1);
    QuantFloat m0 = hn::Zero(df), m1 = m0;
    if (panel_.minimums_at != 0) load_minimums(panel_, head, group, m0, m1);
    for (std::size_t i = 0; i < kTokens; ++i) {
      float* result = results_ + i * kWidth;
      auto c0 = group == 0 ? hn::Zero(df) : hn::Load(df, result);
      auto c1 = group == 0 ? hn::Zero(df) : hn::Load(df, result + kLanes);
      DotInt high0, high1;
      load_sums(first, group, i * kPlanes, high0, high1);
      auto f0 = hn::ConvertTo(df, high0);
      auto f1 = hn::ConvertTo(df, high1);
      if constexpr (kPlanes == 2) {
        DotInt low0, low1;
        load_sums(first, group, i * kPlanes + 1, low0, low1);
        f0 = join_planes(high0, low0);
        f1 = join_planes(high1, low1);
      }
      const float scale = src_.scales.data()[(first + i) * layout_.groups + group];
      add_group(f0, f1, scaled, scale, s0, s1, c0, c1);
      if (panel_.minimums_at != 0) {
        const std::int32_t* sums = src_.negated_sums.data() + (first + i) * kPlanes * layout_.groups + group;
        add_minimums<kPlanes>(sums, layout_.groups, scaled, scale, m0, m1, c0, c1);
      }
      hn::Store(c0, df, result);
      hn::Store(c1, df, result + kLanes);
    }
  }

  const QuantizedActivations::Storage& src_;
  const PanelView& panel_;
  const GroupLayout& layout_;
  std::size_t blocks_of_tile_;
  Tiles tiles_;
  HWY_ALIGN std::int32_t sums_[2 * kAmxRows * kWidth];  // of a group, [row of codes][row]
  HWY_ALIGN float results_[kTokens * kWidth];           // of all groups so far, [token][row]
};

/// Multiplies as many whole tiles of tokens as there are from `first` on; returns the first token that is left.
template <class Tiles, std::size_t kPlanes, class Store>
HWY_NOINLINE std::size_t multiply_whole_tiles(const QuantizedActivations::Storage& src, std::size_t first,
                                              std::size_t last, const PanelView& panel, const Store& store) {
  using Products = AmxProducts<Tiles, kPlanes>;
  if (last - first < Products::kTokens) return first;
  Products products(src, panel);
  for (; last - first >= Products::kTokens; first += Products::kTokens) products.multiply(first, store);
  return first;
}

template <class Tiles, class Store>
std::size_t multiply_by_amx(const QuantizedActivations::Storage& src, std::size_t first, std::size_t last,
                            const PanelView& panel, const Store& store) {
  return src.planes() == 2 ? multiply_whole_tiles<Tiles, 2>(src, first, last, panel, store)
                           : multiply_whole_tiles<Tiles, 1>(src, first, last, panel, store);
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_AMX_PRODUCTS

#endif  // BALLAST_KERNELS_MATRIX_AMX_PRODUCTS_INL_H_
