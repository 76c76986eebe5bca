// The two products of a quantized matrix. quantized_pack.cc builds it.
#include "kernels/quantized_matrix.h"

#include <cassert>
#include <cstring>

#include "kernels/parallel.h"
#include "kernels/quantized_storage.h"
#include "kernels/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantized_matrix.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/float_tile-inl.h"
#include "kernels/quantized_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// Adds the bias and stores a panel's part of dst.
struct PanelStore {
  QuantFloat bias0;
  QuantFloat bias1;
  std::size_t rows;
  float* dst;
  std::size_t dst_stride;

  HWY_INLINE void operator()(std::size_t token, QuantFloat c0, QuantFloat c1) const {
    store_pair(QuantFloatTag(), hn::Add(c0, bias0), hn::Add(c1, bias1), rows, dst + token * dst_stride);
  }
};

HWY_INLINE PanelStore panel_store(const QuantizedMatrix::Storage& s, std::size_t panel, const float* bias, float* dst,
                                  std::size_t dst_stride) {
  const QuantFloatTag df;
  const std::size_t row = panel * s.width;
  return {load_or_zero(df, bias, row, s.rows), load_or_zero(df, bias, row + hn::Lanes(df), s.rows),
          HWY_MIN(s.width, s.rows - row), dst + row, dst_stride};
}

/// INT4 codes of a panel to the 8-bit layout.
void expand_panel(const std::uint8_t* HWY_RESTRICT codes, std::size_t pairs, std::uint8_t* HWY_RESTRICT dst) {
  const QuantByteTag du8;
  const std::size_t bytes = hn::Lanes(du8);
  for (std::size_t p = 0; p < pairs; ++p) {
    QuantBytes w00, w10, w01, w11;
    load_pair<4>(codes, w00, w10, w01, w11);
    hn::StoreU(w00, du8, dst);
    hn::StoreU(w01, du8, dst + bytes);
    hn::StoreU(w10, du8, dst + 2 * bytes);
    hn::StoreU(w11, du8, dst + 3 * bytes);
    codes += pair_bytes<4>();
    dst += pair_bytes<8>();
  }
}

template <int kBits>
HWY_NOINLINE void multiply_int8_panel(const Int8Activations::Storage& src, std::size_t first, std::size_t last,
                                      const PanelView& panel, const PanelStore& store) {
  for (std::size_t i = first; i < last; i += kTileTokens) {
    multiply_int8_tile_of<kTileTokens, kBits>(last - i, src, i, panel, store);
  }
}

void matmul_int8(const QuantizedMatrix::Storage& s, const Int8Activations::Storage& src, const float* bias, float* dst,
                 std::size_t dst_stride) {
  const std::size_t threads = threads_for(src.m * s.rows * s.layout.cols / 4);
  if (src.m <= kTileTokens) {
    parallel_ranges(s.panels, threads, [&](std::size_t begin, std::size_t end) HWY_ATTR {
      for (std::size_t p = begin; p < end; ++p) {
        const PanelStore store = panel_store(s, p, bias, dst, dst_stride);
        if (s.bits == 8) {
          multiply_int8_panel<8>(src, 0, src.m, panel_view(s, p), store);
        } else {
          multiply_int8_panel<4>(src, 0, src.m, panel_view(s, p), store);
        }
      }
    });
    return;
  }
  const TokenBlocks blocks(src.m, kTileTokens, s.panels, threads);
  const ThreadScratch scratch(threads, s.bits == 4 ? s.panel_bytes() * 2 / sizeof(float) : 0);
  parallel_tasks(s.panels * blocks.count, threads, [&](std::size_t task, std::size_t thread) HWY_ATTR {
    const std::size_t p = task / blocks.count;
    const std::size_t first = task % blocks.count * blocks.size;
    PanelView panel = panel_view(s, p);
    if (s.bits == 4) {
      std::uint8_t* expanded = reinterpret_cast<std::uint8_t*>(scratch.of(thread));
      expand_panel(panel.codes, s.layout.pairs, expanded);
      panel.codes = expanded;
    }
    multiply_int8_panel<8>(src, first, HWY_MIN(first + blocks.size, src.m), panel,
                           panel_store(s, p, bias, dst, dst_stride));
  });
}

/// Decodes a panel to F32 [cols][width], outlier columns in their places.
template <int kBits>
HWY_INLINE void decode_quantized_panel(const PanelView& panel, const std::int32_t* outlier_columns,
                                       float* HWY_RESTRICT dst) {
  const QuantFloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  const std::uint8_t* codes = panel.codes;
  for (std::size_t g = 0; g < panel.layout->groups; ++g) {
    const std::size_t at = g * 2 * lanes;
    const auto z0 = load_zeros(panel, at);
    const auto z1 = load_zeros(panel, at + lanes);
    const auto s0 = load_16_bit(panel.scales + at, panel.bf16_scales);
    const auto s1 = load_16_bit(panel.scales + at + lanes, panel.bf16_scales);
    std::size_t left = panel.layout->columns_in(g);
    for (std::size_t p = 0; p < panel.layout->pairs_in(g); ++p) {
      for_columns_of_pair<kBits>(codes, z0, z1, [&](std::size_t column, QuantFloat w0, QuantFloat w1) HWY_ATTR {
        if (column >= left) return;
        hn::StoreU(hn::Mul(w0, s0), df, dst + column * 2 * lanes);
        hn::StoreU(hn::Mul(w1, s1), df, dst + column * 2 * lanes + lanes);
      });
      const std::size_t done = HWY_MIN(left, GroupLayout::kPairColumns);
      left -= done;
      dst += done * 2 * lanes;
      codes += pair_bytes<kBits>();
    }
  }
  dst -= panel.layout->cols * 2 * lanes;
  for (std::size_t j = 0; j < panel.outlier_count; ++j) {
    float* column = dst + static_cast<std::size_t>(outlier_columns[j]) * 2 * lanes;
    hn::StoreU(load_16_bit(panel.outliers + j * 2 * lanes, panel.bf16_outliers), df, column);
    hn::StoreU(load_16_bit(panel.outliers + (j * 2 + 1) * lanes, panel.bf16_outliers), df, column + lanes);
  }
}

void multiply_float_many(const QuantizedMatrix::Storage& s, const float* src, std::size_t m, const float* bias,
                         float* dst, std::size_t dst_stride) {
  const std::size_t cols = s.layout.cols;
  const std::size_t threads = threads_for(m * s.rows * cols);
  const TokenBlocks blocks(m, kTileRows, s.panels, threads);
  const ThreadScratch scratch(threads, s.width * cols);
  parallel_tasks(s.panels * blocks.count, threads, [&](std::size_t task, std::size_t thread) HWY_ATTR {
    const std::size_t p = task / blocks.count;
    const std::size_t first = task % blocks.count * blocks.size;
    float* decoded = scratch.of(thread);
    if (s.bits == 8) {
      decode_quantized_panel<8>(panel_view(s, p), s.outlier_columns.data(), decoded);
    } else {
      decode_quantized_panel<4>(panel_view(s, p), s.outlier_columns.data(), decoded);
    }
    const PanelStore store = panel_store(s, p, bias, dst + first * dst_stride, dst_stride);
    multiply_panel(src + first * cols, HWY_MIN(blocks.size, m - first), cols, decoded, s.width, cols, store);
  });
}

/// Tokens whose products with F32 activations are computed without a decoded panel.
inline constexpr std::size_t kFewTokens = 4;

template <std::size_t kTokens>
HWY_INLINE void multiply_float_tile_of(std::size_t tokens, int bits, const float* src, const float* outliers,
                                       const PanelView& panel, const PanelStore& store) {
  if (tokens == kTokens) {
    if (bits == 8) {
      multiply_float_tile<kTokens, 8>(src, outliers, panel, store);
    } else {
      multiply_float_tile<kTokens, 4>(src, outliers, panel, store);
    }
  } else if constexpr (kTokens > 1) {
    multiply_float_tile_of<kTokens - 1>(tokens, bits, src, outliers, panel, store);
  }
}

void multiply_float_few(const QuantizedMatrix::Storage& s, const float* src, std::size_t m, const float* bias,
                        float* dst, std::size_t dst_stride) {
  const GroupLayout& layout = s.layout;
  const std::size_t padded = layout.padded_cols();
  const std::size_t outliers = s.outlier_columns.size();
  const ThreadScratch scratch(1, m * (padded + outliers));
  float* tokens = scratch.of(0);
  float* token_outliers = tokens + m * padded;
  for (std::size_t i = 0; i < m; ++i) {
    float* token = tokens + i * padded;
    std::memset(token, 0, padded * sizeof(float));
    for (std::size_t g = 0; g < layout.groups; ++g) {
      std::memcpy(token + g * layout.group_pairs * GroupLayout::kPairColumns,
                  src + i * layout.cols + g * layout.group_size, layout.columns_in(g) * sizeof(float));
    }
    for (std::size_t j = 0; j < outliers; ++j) {
      token_outliers[i * outliers + j] = src[i * layout.cols + static_cast<std::size_t>(s.outlier_columns[j])];
    }
  }
  parallel_ranges(s.panels, threads_for(m * s.rows * layout.cols), [&](std::size_t begin, std::size_t end) HWY_ATTR {
    for (std::size_t p = begin; p < end; ++p) {
      multiply_float_tile_of<kFewTokens>(m, s.bits, tokens, token_outliers, panel_view(s, p),
                                         panel_store(s, p, bias, dst, dst_stride));
    }
  });
}

void matmul_float(const QuantizedMatrix::Storage& s, const float* src, std::size_t m, const float* bias, float* dst,
                  std::size_t dst_stride) {
  if (m <= kFewTokens) {
    multiply_float_few(s, src, m, bias, dst, dst_stride);
  } else {
    multiply_float_many(s, src, m, bias, dst, dst_stride);
  }
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(matmul_int8);
HWY_EXPORT(matmul_float);

void QuantizedMatrix::matmul(const float* src, std::size_t m, const float* bias, float* dst,
                             std::size_t dst_stride) const {
  if (m != 0 && rows() != 0) HWY_DYNAMIC_DISPATCH(matmul_float)(*storage_, src, m, bias, dst, dst_stride);
}

void QuantizedMatrix::matmul(const Int8Activations& src, [[maybe_unused]] std::size_t m, const float* bias, float* dst,
                             std::size_t dst_stride) const {
  assert(src.storage().m == m);
  assert(src.storage().format.cols == cols() && src.storage().format.group_size == group_size());
  assert(src.storage().format.outlier_columns == storage_->outlier_columns);
  if (m != 0 && rows() != 0) HWY_DYNAMIC_DISPATCH(matmul_int8)(*storage_, src.storage(), bias, dst, dst_stride);
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
