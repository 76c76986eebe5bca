// Products of tokens with one panel of a quantized matrix. Each of the files quantized_panel_*.cc compiles them for
// some codes: together they have hundreds of tiles, and files compile in parallel.
#if defined(BALLAST_KERNELS_MATRIX_QUANTIZED_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_MATRIX_QUANTIZED_PANEL_INL_H_
#undef BALLAST_KERNELS_MATRIX_QUANTIZED_PANEL_INL_H_
#else
#define BALLAST_KERNELS_MATRIX_QUANTIZED_PANEL_INL_H_
#endif

#include <hwy/highway.h>

#include <cassert>
#include <cstddef>
#include <type_traits>

#include "ballast/codebooks.h"
#include "kernels/matrix/quantized_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// Up to this many tokens, codes are unpacked anew for every tile: each matrix is read once, in order, by threads with
/// equal shares. More tokens are worth a panel with a byte for each code. (2 cores of Zen 4, Qwen2.5-1.5B with INT4
/// weights, as fast as with such a panel: 2 tokens 1.8 times, 8 1.4, 16 1.2.)
inline constexpr std::size_t kFewTokens = 16;

/// Adds bias and earlier content, and stores a panel's part of dst.
struct PanelStore {
  const float* bias;  ///< null, or [rows of this panel]
  std::size_t rows;
  float* dst;
  std::size_t first;  ///< the token whose values come first in dst
  std::size_t stride;
  bool accumulate;

  HWY_INLINE void operator()(std::size_t token, QuantFloat c0, QuantFloat c1) const {
    const FloatTag df;
    const std::size_t lanes = hn::Lanes(df);
    float* out = dst + (token - first) * stride;
    if (bias != nullptr) {
      c0 = hn::Add(c0, load_or_zero(df, bias, 0, rows));
      c1 = hn::Add(c1, load_or_zero(df, bias, lanes, rows));
    }
    if (accumulate) {
      c0 = hn::Add(c0, load_or_zero(df, out, 0, rows));
      c1 = hn::Add(c1, load_or_zero(df, out, lanes, rows));
    }
    store_pair(df, c0, c1, rows, out);
  }
};

// How the next panel is fetched during a product: for few tokens, which memory limits, evenly with the blocks; for
// many, in bursts with their tiles, outside of the innermost loop (64 tokens with INT4 1.1 times as fast, 512 1.03).
struct FetchWithBlocks {};
struct FetchWithTiles {};

/// Returns the tokens of the smallest tile when more than kFewTokens are cut into tiles of about the same size, of at
/// most `tile` tokens: 17 tokens in tiles of at most 4 are 4, 4, 3, 3 and 3.
constexpr std::size_t smallest_tile_of_many(std::size_t tile) {
  std::size_t smallest = tile;
  for (std::size_t tokens = kFewTokens + 1; tokens <= 2 * kFewTokens * tile; ++tokens) {
    smallest = HWY_MIN(smallest, tokens / ((tokens + tile - 1) / tile));
  }
  return smallest;
}

/// Multiplies tokens first .. last with a panel of Codes in tiles of about the same size: 7 tokens are 4 and 3.
template <class Dots, std::size_t kPlanes, class Codes, std::size_t kGroupBlocks, class Fetch>
HWY_NOINLINE void multiply_tokens_of(const QuantizedActivations::Storage& src, std::size_t first, std::size_t last,
                                     const PanelView& panel, NextPanel next, const PanelStore& store) {
  constexpr std::size_t kTokens = HWY_MAX(kTileRowsOfCodes<Dots> / kPlanes, 1);
  std::size_t tiles = (last - first + kTokens - 1) / kTokens;
  constexpr bool kWithBlocks = std::is_same_v<Fetch, FetchWithBlocks>;
  // AMX multiplies unsigned codes, and leaves any number of tokens.
  constexpr std::size_t kLeast = kWithBlocks || Dots::kUnsignedCodes ? 1 : smallest_tile_of_many(kTokens);
  next.spread(kWithBlocks ? tiles * panel.layout->blocks : tiles);
  for (; tiles > 0; --tiles) {
    const std::size_t tokens = (last - first + tiles - 1) / tiles;
    assert(tokens >= kLeast);
    if constexpr (kWithBlocks) {
      multiply_code_tile_of<Dots, kTokens, kLeast, kPlanes, Codes, kGroupBlocks>(tokens, src, first, panel, next,
                                                                                 store);
    } else {
      NoNextPanel none;
      next.fetch();
      multiply_code_tile_of<Dots, kTokens, kLeast, kPlanes, Codes, kGroupBlocks>(tokens, src, first, panel, none,
                                                                                 store);
    }
    first += tokens;
  }
}

template <class Dots, class Codes, std::size_t kGroupBlocks, class Fetch>
void multiply_tokens_of_planes(const QuantizedActivations::Storage& src, std::size_t first, std::size_t last,
                               const PanelView& panel, const NextPanel& next, const PanelStore& store) {
  if (src.planes() == 2) {
    multiply_tokens_of<Dots, 2, Codes, kGroupBlocks, Fetch>(src, first, last, panel, next, store);
  } else {
    multiply_tokens_of<Dots, 1, Codes, kGroupBlocks, Fetch>(src, first, last, panel, next, store);
  }
}

template <class Dots, class Codes, class Fetch>
void multiply_tokens(const QuantizedActivations::Storage& src, std::size_t first, std::size_t last,
                     const PanelView& panel, const NextPanel& next, const PanelStore& store) {
  constexpr int kBits = Codes::kBits;
  // Codebooks, the only codes of 7 bits, have whole blocks and only scales.
  constexpr bool kCodebook = Codes::kBook != CodebookId::kUniform || Codes::kCodeBits == 7;
  if (src.layout.groups_of_block == 2) {
    if constexpr (kBits != 5 && !kCodebook) {
      return multiply_tokens_of_planes<Dots, Codes, kHalfABlock, Fetch>(src, first, last, panel, next, store);
    }
  }
  if (panel.shared_scales != nullptr || panel.minimums_at != 0) {
    if constexpr (!kCodebook) {
      return multiply_tokens_of_planes<Dots, Codes, kBlockOfFactors, Fetch>(src, first, last, panel, next, store);
    }
  }
  if (src.planes() == 2) {
    return multiply_tokens_of<Dots, 2, Codes, 0, Fetch>(src, first, last, panel, next, store);
  }
  // Groups of one block are those of 4-bit codes and of codebooks, packed or expanded.
  if constexpr (kBits == 4 || kCodebook || std::is_same_v<Fetch, FetchWithTiles>) {
    if (src.layout.group_blocks == 1) {
      return multiply_tokens_of<Dots, 1, Codes, 1, Fetch>(src, first, last, panel, next, store);
    }
  }
  multiply_tokens_of<Dots, 1, Codes, 0, Fetch>(src, first, last, panel, next, store);
}

/// Calls use(dots) with the fastest class for few tokens on this processor.
template <class Use>
HWY_INLINE void with_dots_of_few(const Use& use) {
  with_dots([&](auto dots) HWY_ATTR { use(typename decltype(dots)::Few()); });
}

/// Arguments of a product of tokens first .. last with a panel whose codes are packed.
struct PackedPanelProduct {
  const QuantizedActivations::Storage& src;
  std::size_t first;
  std::size_t last;
  const PanelView& panel;
  const NextPanel& next;
  const PanelStore& store;

  template <class Codes>
  HWY_INLINE void multiply(Codes /*codes*/) const {
    with_dots_of_few([&](auto dots) HWY_ATTR {
      multiply_tokens<decltype(dots), Codes, FetchWithBlocks>(src, first, last, panel, next, store);
    });
  }
};

/// Multiplies a panel of 4- or 5-bit codes, of 6- or 8-bit codes, and of codes of a codebook.
void multiply_panel_of_4_or_5_bits(int bits, const PackedPanelProduct& product);
void multiply_panel_of_6_or_8_bits(int bits, const PackedPanelProduct& product);
void multiply_panel_of_codebook(CodebookId id, const PackedPanelProduct& product);

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_MATRIX_QUANTIZED_PANEL_INL_H_
