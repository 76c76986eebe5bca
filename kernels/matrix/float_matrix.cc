#include "kernels/matrix/float_matrix.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/float_gemm.h"
#include "kernels/parallel.h"
#include "kernels/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matrix/float_matrix.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/matrix/float_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

HWY_INLINE hn::VFromD<hn::Rebind<hwy::float16_t, FloatTag>> round_to(hwy::float16_t, hn::VFromD<FloatTag> v) {
  return hn::DemoteTo(hn::Rebind<hwy::float16_t, FloatTag>(), v);
}

/// Rounds with integer operations, because the conversion instruction flushes denormals.
HWY_INLINE hn::VFromD<hn::Rebind<hwy::bfloat16_t, FloatTag>> round_to(hwy::bfloat16_t, hn::VFromD<FloatTag> v) {
  const hn::RebindToUnsigned<FloatTag> du32;
  const hn::Rebind<std::uint16_t, FloatTag> du16;
  const auto bits = hn::BitCast(du32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du32, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du32, 0x7FFF)));
  const auto quiet_nan = hn::Or(bits, hn::Set(du32, 0x400000));
  const auto result = hn::IfThenElse(hn::RebindMask(du32, hn::IsNaN(v)), quiet_nan, rounded);
  return hn::BitCast(hn::Rebind<hwy::bfloat16_t, FloatTag>(), hn::TruncateTo(du16, hn::ShiftRight<16>(result)));
}

template <class T>
void encode_values(const float* HWY_RESTRICT src, std::size_t count, T* HWY_RESTRICT dst) {
  const FloatTag df;
  const hn::Rebind<T, FloatTag> dt;
  const std::size_t lanes = hn::Lanes(df);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(round_to(T(), hn::LoadU(df, src + i)), dt, dst + i);
  if (i < count) hn::StoreN(round_to(T(), hn::LoadN(df, src + i, count - i)), dt, dst + i, count - i);
}

/// Rounds a row to BF16; after an odd number of columns comes a zero. Denormals may become 0, as in the products.
template <class T>
void round_row(const T* HWY_RESTRICT src, std::size_t cols, hwy::bfloat16_t* HWY_RESTRICT dst) {
  const FloatTag df;
  const hn::Rebind<hwy::bfloat16_t, FloatTag> dt;
  const std::size_t lanes = hn::Lanes(df);
  std::size_t c = 0;
  for (; c + lanes <= cols; c += lanes) hn::StoreU(hn::DemoteTo(dt, load_as_float(df, src + c)), dt, dst + c);
  if (c < cols) hn::StoreN(hn::DemoteTo(dt, load_as_float_n(df, src + c, cols - c)), dt, dst + c, cols - c);
  if (cols % 2 != 0) std::memset(dst + cols, 0, sizeof(hwy::bfloat16_t));
}

std::size_t panels_of(const FloatMatrix& matrix) {
  return (matrix.rows + panel_rows() - 1) / panel_rows();
}

/// A panel of the weights of an output: `rows` rows from `row` on.
struct Panel {
  const FloatOutput* output;
  std::size_t row;
  std::size_t rows;
};

/// Returns the panel with this index; panels of all outputs are numbered in one sequence.
Panel panel_at(std::span<const FloatOutput> outputs, std::size_t index) {
  const FloatOutput* output = outputs.data();
  for (; index >= panels_of(*output->matrix); ++output) index -= panels_of(*output->matrix);
  const std::size_t row = index * panel_rows();
  return {output, row, HWY_MIN(panel_rows(), output->matrix->rows - row)};
}

/// Returns the panel's first row, or the panel itself if the weights are in panels: both start at the same offset.
const std::byte* weights_of(const Panel& panel) {
  const FloatMatrix& matrix = *panel.output->matrix;
  return static_cast<const std::byte*>(matrix.data) + panel.row * matrix.cols * float_type_bytes(matrix.type);
}

/// Returns a panel in F32, [cols][panel_rows()]: the weights themselves, or a copy in `scratch`.
const float* decoded_panel(const Panel& panel, float* scratch) {
  const FloatMatrix& matrix = *panel.output->matrix;
  const std::byte* weights = weights_of(panel);
  if (!matrix.in_panels) {
    decode_panel(weights, matrix.type, matrix.cols, panel.rows, matrix.cols, scratch);
  } else if (matrix.type == FloatType::kF32) {
    return reinterpret_cast<const float*>(weights);
  } else {
    decode_values(weights, matrix.type, matrix.cols * panel_rows(), scratch);
  }
  return scratch;
}

/// Rounds floats to BF16, in the lower halves of lanes.
template <class T>
HWY_INLINE hn::VFromD<hn::RebindToUnsigned<FloatTag>> load_rounded(const T* src) {
  const hn::Rebind<hwy::bfloat16_t, FloatTag> dt;
  const auto rounded = hn::DemoteTo(dt, load_as_float(FloatTag(), src));
  return hn::PromoteTo(hn::RebindToUnsigned<FloatTag>(), hn::BitCast(hn::Rebind<std::uint16_t, FloatTag>(), rounded));
}
HWY_INLINE hn::VFromD<hn::RebindToUnsigned<FloatTag>> load_rounded(const hwy::bfloat16_t* src) {
  const auto* bits = reinterpret_cast<const std::uint16_t*>(src);
  return hn::PromoteTo(hn::RebindToUnsigned<FloatTag>(), hn::LoadU(hn::Rebind<std::uint16_t, FloatTag>(), bits));
}

/// Converts `count` columns of a panel, [count][panel_rows()], to BF16, with two columns of a row in the place of one
/// float: pairs[(count + 1) / 2][panel_rows()]. After an odd number of columns comes a zero.
template <class T>
void pair_columns(const T* HWY_RESTRICT columns, std::size_t count, float* HWY_RESTRICT pairs) {
  const FloatTag df;
  const std::size_t width = panel_rows();
  for (std::size_t c = 0; c < count; c += 2) {
    for (std::size_t r = 0; r < width; r += hn::Lanes(df)) {
      const T* src = columns + c * width + r;
      auto pair = load_rounded(src);
      if (c + 1 < count) pair = hn::Or(pair, hn::ShiftLeft<16>(load_rounded(src + width)));
      hn::StoreU(hn::BitCast(df, pair), df, pairs + c / 2 * width + r);
    }
  }
}

/// Calls pair_columns for `count` columns of a panel from `first` on. `scratch` is [count][panel_rows()].
void pair_panel(const Panel& panel, std::size_t first, std::size_t count, float* scratch, float* pairs) {
  const FloatMatrix& matrix = *panel.output->matrix;
  const std::size_t columns_before = matrix.in_panels ? first * panel_rows() : first;
  const std::byte* weights = weights_of(panel) + columns_before * float_type_bytes(matrix.type);
  if (!matrix.in_panels) {
    decode_panel(weights, matrix.type, matrix.cols, panel.rows, count, scratch);
    return pair_columns(scratch, count, pairs);
  }
  switch (matrix.type) {
    case FloatType::kF32:
      return pair_columns(reinterpret_cast<const float*>(weights), count, pairs);
    case FloatType::kF16:
      return pair_columns(reinterpret_cast<const hwy::float16_t*>(weights), count, pairs);
    case FloatType::kBF16:
      return pair_columns(reinterpret_cast<const hwy::bfloat16_t*>(weights), count, pairs);
  }
}

/// Stores a token's two vectors of products.
template <class V>
HWY_INLINE void store_products(const Panel& panel, std::size_t token, V c0, V c1) {
  const FloatTag df;
  const FloatOutput& output = *panel.output;
  float* dst = output.dst + token * output.stride + panel.row;
  c0 = hn::Add(c0, load_or_zero(df, output.bias, panel.row, output.matrix->rows));
  c1 = hn::Add(c1, load_or_zero(df, output.bias, panel.row + hn::Lanes(df), output.matrix->rows));
  if (output.accumulate) {
    c0 = hn::Add(c0, load_or_zero(df, dst, 0, panel.rows));
    c1 = hn::Add(c1, load_or_zero(df, dst, hn::Lanes(df), panel.rows));
  }
  store_pair(df, c0, c1, panel.rows, dst);
}

/// Multiplies at most one tile of tokens with a panel that needs no conversion.
template <class T>
HWY_NOINLINE void multiply_tokens(const Panel& panel, const float* src, std::size_t m) {
  const std::size_t cols = panel.output->matrix->cols;
  multiply_tile_of<kTileRows>(m, src, cols, reinterpret_cast<const T*>(weights_of(panel)), panel_rows(), cols,
                              [&](std::size_t row, auto c0, auto c1) HWY_ATTR { store_products(panel, row, c0, c1); });
}

/// Multiplies few tokens with matrices that are all in panels: weights are read once, in order.
void multiply_few(std::span<const FloatOutput> outputs, std::size_t panels, const float* src, std::size_t m,
                  std::size_t threads) {
  parallel_ranges(panels, threads, [&](std::size_t begin, std::size_t end) HWY_ATTR {
    for (std::size_t i = begin; i < end; ++i) {
      const Panel panel = panel_at(outputs, i);
      switch (panel.output->matrix->type) {
        case FloatType::kF32:
          multiply_tokens<float>(panel, src, m);
          break;
        case FloatType::kF16:
          multiply_tokens<hwy::float16_t>(panel, src, m);
          break;
        case FloatType::kBF16:
          multiply_tokens<hwy::bfloat16_t>(panel, src, m);
          break;
      }
    }
  });
}

/// Stores the products of `count` tokens from `first` on, in rows of panel_rows().
void store_rows(const Panel& panel, std::size_t first, std::size_t count, const float* products) {
  const FloatTag df;
  for (std::size_t i = 0; i < count; ++i) {
    const float* row = products + i * panel_rows();
    store_products(panel, first + i, hn::LoadU(df, row), hn::LoadU(df, row + hn::Lanes(df)));
  }
}

/// Multiplies many tokens. Each panel is decoded once, usually for many tiles of tokens.
void multiply_many(std::span<const FloatOutput> outputs, std::size_t panels, const float* src, std::size_t m,
                   std::size_t threads, FloatGemmChoice choice) {
  const std::size_t cols = outputs.front().matrix->cols;
  const TokenBlocks blocks(m, kTileRows, panels, threads);
  const FloatGemm* gemm = m > kTileRows ? float_gemm_for(m, choice) : nullptr;
  const ThreadScratch scratch(threads, panel_rows() * (cols + (gemm != nullptr ? blocks.size : 0)));
  TaskFailure failure;  // oneDNN compiles its kernels when they are first needed
  parallel_tasks(panels * blocks.count, threads, [&](std::size_t task, std::size_t thread) HWY_ATTR {
    const Panel panel = panel_at(outputs, task / blocks.count);
    const std::size_t first = task % blocks.count * blocks.size;
    const std::size_t count = HWY_MIN(blocks.size, m - first);
    const float* decoded = decoded_panel(panel, scratch.of(thread));
    if (gemm == nullptr) {
      multiply_panel(src + first * cols, count, cols, decoded, panel_rows(), cols,
                     [&](std::size_t i, auto c0, auto c1) HWY_ATTR { store_products(panel, first + i, c0, c1); });
      return;
    }
    float* products = scratch.of(thread) + panel_rows() * cols;
    failure.keep(task, [&]() HWY_ATTR {
      gemm->multiply(FloatType::kF32, {.rows = src + first * cols,
                                       .count = count,
                                       .stride = cols,
                                       .panel = decoded,
                                       .width = panel_rows(),
                                       .depth = cols,
                                       .dst = products});
    });
    store_rows(panel, first, count, products);
  });
  failure.rethrow();
}

/// Number of columns whose BF16 products are summed before the sum is added to the result. It does not depend on the
/// number of tokens, because it determines the last bits of the sums. It is small enough for a packed part of a panel
/// to stay in the first-level cache.
constexpr std::size_t kRoundedColumns = 256;

/// Multiplies with both sides rounded to BF16, for any number of tokens.
void multiply_rounded(std::span<const FloatOutput> outputs, std::size_t panels, const float* src, std::size_t m,
                      std::size_t threads) {
  const FloatGemm& gemm = *onednn_gemm();
  const std::size_t cols = outputs.front().matrix->cols;
  const std::size_t padded = cols + cols % 2;
  const std::size_t part = HWY_MIN(padded, kRoundedColumns);
  thread_local AlignedArray<hwy::bfloat16_t> rounded;
  rounded.grow(m * padded);
  hwy::bfloat16_t* rows = rounded.data();
  parallel_ranges(m, threads, [&](std::size_t begin, std::size_t end) HWY_ATTR {
    for (std::size_t i = begin; i < end; ++i) round_row(src + i * cols, cols, rows + i * padded);
  });
  const TokenBlocks blocks(m, kTileRows, panels, threads);
  const std::size_t pair_floats = panel_rows() * part / 2;
  const ThreadScratch scratch(threads, 3 * pair_floats + panel_rows() * blocks.size);
  TaskFailure failure;
  parallel_tasks(panels * blocks.count, threads, [&](std::size_t task, std::size_t thread) HWY_ATTR {
    const Panel panel = panel_at(outputs, task / blocks.count);
    const std::size_t first = task % blocks.count * blocks.size;
    const std::size_t count = HWY_MIN(blocks.size, m - first);
    float* pairs = scratch.of(thread);
    float* decoded = pairs + pair_floats;
    float* products = decoded + 2 * pair_floats;
    for (std::size_t c = 0; c < padded; c += part) {
      const std::size_t depth = HWY_MIN(part, padded - c);
      pair_panel(panel, c, HWY_MIN(depth, cols - c), decoded, pairs);
      failure.keep(task, [&]() HWY_ATTR {
        gemm.multiply(FloatType::kBF16, {.rows = rows + first * padded + c,
                                         .count = count,
                                         .stride = padded,
                                         .panel = pairs,
                                         .width = panel_rows(),
                                         .depth = depth,
                                         .dst = products,
                                         .adds = c > 0});
      });
    }
    store_rows(panel, first, count, products);
  });
  failure.rethrow();
}

bool all_in_panels(std::span<const FloatOutput> outputs) {
  return std::ranges::all_of(outputs, [](const FloatOutput& output) { return output.matrix->in_panels; });
}

/// Calls multiply(panels, threads) unless there is nothing to do.
template <class Multiply>
void with_panels(std::span<const FloatOutput> outputs, std::size_t m, const Multiply& multiply) {
  std::size_t panels = 0, rows = 0;
  for (const FloatOutput& output : outputs) {
    panels += panels_of(*output.matrix);
    rows += output.matrix->rows;
  }
  if (m == 0 || rows == 0) return;
  multiply(panels, threads_for(m * rows * outputs.front().matrix->cols));
}

void matmul_f32(std::span<const FloatOutput> outputs, const float* src, std::size_t m, FloatGemmChoice choice) {
  with_panels(outputs, m, [&](std::size_t panels, std::size_t threads) {
    if (m <= kTileRows && all_in_panels(outputs)) {
      multiply_few(outputs, panels, src, m, threads);
    } else {
      multiply_many(outputs, panels, src, m, threads, choice);
    }
  });
}

void matmul_bf16(std::span<const FloatOutput> outputs, const float* src, std::size_t m) {
  with_panels(outputs, m,
              [&](std::size_t panels, std::size_t threads) { multiply_rounded(outputs, panels, src, m, threads); });
}

std::size_t tile_width() {
  return panel_rows();
}

bool tile_fuses() {
  return HWY_NATIVE_FMA != 0;
}

void multiply_own(const FloatGemmTile& tile) {
  const FloatTag df;
  multiply_panel(static_cast<const float*>(tile.rows), tile.count, tile.stride, static_cast<const float*>(tile.panel),
                 panel_rows(), tile.depth, [&](std::size_t i, auto c0, auto c1) HWY_ATTR {
                   hn::StoreU(c0, df, tile.dst + i * panel_rows());
                   hn::StoreU(c1, df, tile.dst + i * panel_rows() + hn::Lanes(df));
                 });
}

void to_float(const void* src, FloatType type, std::size_t count, float* dst) {
  decode_values(src, type, count, dst);
}

void from_float(const float* src, std::size_t count, FloatType type, void* dst) {
  switch (type) {
    case FloatType::kF32:
      return decode_values(src, type, count, static_cast<float*>(dst));
    case FloatType::kF16:
      return encode_values(src, count, static_cast<hwy::float16_t*>(dst));
    case FloatType::kBF16:
      return encode_values(src, count, static_cast<hwy::bfloat16_t*>(dst));
  }
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(matmul_f32);
HWY_EXPORT(matmul_bf16);
HWY_EXPORT(tile_width);
HWY_EXPORT(tile_fuses);
HWY_EXPORT(multiply_own);
HWY_EXPORT(to_float);
HWY_EXPORT(from_float);

void matmul(std::span<const FloatOutput> outputs, const float* src, std::size_t m, const ComputeOptions& compute) {
  if (compute.bf16_products) {
    HWY_DYNAMIC_DISPATCH(matmul_bf16)(outputs, src, m);
  } else {
    HWY_DYNAMIC_DISPATCH(matmul_f32)(outputs, src, m, compute.float_gemm);
  }
}

std::size_t own_tile_width() {
  return HWY_DYNAMIC_DISPATCH(tile_width)();
}

bool own_tile_fuses() {
  return HWY_DYNAMIC_DISPATCH(tile_fuses)();
}

void multiply_own_tile(const FloatGemmTile& tile) {
  HWY_DYNAMIC_DISPATCH(multiply_own)(tile);
}

void to_float(const void* src, FloatType type, std::size_t count, float* dst) {
  HWY_DYNAMIC_DISPATCH(to_float)(src, type, count, dst);
}

void from_float(const float* src, std::size_t count, FloatType type, void* dst) {
  HWY_DYNAMIC_DISPATCH(from_float)(src, count, type, dst);
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
