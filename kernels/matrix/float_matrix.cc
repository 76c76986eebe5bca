#include "kernels/matrix/float_matrix.h"

#include <cstddef>

#include "kernels/parallel.h"
#include "kernels/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matrix/float_matrix.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/matrix/float_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

std::size_t panels_of(const FloatMatrix& matrix) {
  return (matrix.rows + panel_rows() - 1) / panel_rows();
}

/// One panel of an output's weights: `rows` of them from `row` on.
struct Panel {
  const FloatOutput* output;
  std::size_t row;
  std::size_t rows;
};

/// Panels are counted through all outputs.
Panel panel_at(std::span<const FloatOutput> outputs, std::size_t index) {
  const FloatOutput* output = outputs.data();
  for (; index >= panels_of(*output->matrix); ++output) index -= panels_of(*output->matrix);
  const std::size_t row = index * panel_rows();
  return {output, row, HWY_MIN(panel_rows(), output->matrix->rows - row)};
}

const std::byte* weights_of(const Panel& panel) {
  const FloatMatrix& matrix = *panel.output->matrix;
  return static_cast<const std::byte*>(matrix.data) + panel.row * matrix.cols * float_type_bytes(matrix.type);
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

/// At most a tile of tokens: weights are read once, and decoded a cache line of each row at a time. The rows of a panel
/// are too many streams for a core to foresee, so what comes next is asked for.
template <class T>
HWY_NOINLINE void multiply_tokens(const Panel& panel, const float* src, std::size_t m) {
  constexpr std::size_t kDepth = 64 / sizeof(T);
  constexpr std::size_t kAhead = 128;  // columns
  const FloatTag df;
  const std::size_t cols = panel.output->matrix->cols;
  const T* weights = reinterpret_cast<const T*>(weights_of(panel));
  HWY_ALIGN float sums[kTileRows * 2 * hn::MaxLanes(df)] = {};
  HWY_ALIGN float decoded[kDepth * 2 * hn::MaxLanes(df)];
  for (std::size_t c = 0; c < cols; c += kDepth) {
    const T* ahead = weights + c + kAhead + (c + kAhead < cols ? 0 : panel_rows() * cols - cols);
    for (std::size_t r = 0; r < panel_rows(); ++r) prefetch_to_l2(ahead + r * cols);
    const std::size_t depth = HWY_MIN(kDepth, cols - c);
    decode_panel_of(weights + c, cols, panel.rows, depth, decoded);
    multiply_tile_of<kTileRows>(
        m, src + c, cols, decoded, panel_rows(), depth,
        [&](std::size_t row, auto c0, auto c1) HWY_ATTR {
          hn::StoreU(c0, df, sums + row * panel_rows());
          hn::StoreU(c1, df, sums + row * panel_rows() + hn::Lanes(df));
        },
        [&](std::size_t row, auto& c0, auto& c1) HWY_ATTR {
          c0 = hn::LoadU(df, sums + row * panel_rows());
          c1 = hn::LoadU(df, sums + row * panel_rows() + hn::Lanes(df));
        });
  }
  for (std::size_t i = 0; i < m; ++i) {
    const float* sum = sums + i * panel_rows();
    store_products(panel, i, hn::LoadU(df, sum), hn::LoadU(df, sum + hn::Lanes(df)));
  }
}

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

/// A panel is decoded whole, for many tiles of tokens.
void multiply_many(std::span<const FloatOutput> outputs, std::size_t panels, const float* src, std::size_t m,
                   std::size_t threads) {
  const std::size_t cols = outputs.front().matrix->cols;
  const TokenBlocks blocks(m, kTileRows, panels, threads);
  const ThreadScratch scratch(threads, panel_rows() * cols);
  parallel_tasks(panels * blocks.count, threads, [&](std::size_t task, std::size_t thread) HWY_ATTR {
    const Panel panel = panel_at(outputs, task / blocks.count);
    const std::size_t first = task % blocks.count * blocks.size;
    float* decoded = scratch.of(thread);
    decode_panel(weights_of(panel), panel.output->matrix->type, cols, panel.rows, cols, decoded);
    multiply_panel(src + first * cols, HWY_MIN(blocks.size, m - first), cols, decoded, panel_rows(), cols,
                   [&](std::size_t i, auto c0, auto c1) HWY_ATTR { store_products(panel, first + i, c0, c1); });
  });
}

void matmul(std::span<const FloatOutput> outputs, const float* src, std::size_t m) {
  std::size_t panels = 0, rows = 0;
  for (const FloatOutput& output : outputs) {
    panels += panels_of(*output.matrix);
    rows += output.matrix->rows;
  }
  if (m == 0 || rows == 0) return;
  const std::size_t threads = threads_for(m * rows * outputs.front().matrix->cols);
  if (m <= kTileRows) {
    multiply_few(outputs, panels, src, m, threads);
  } else {
    multiply_many(outputs, panels, src, m, threads);
  }
}

void to_float(const void* src, FloatType type, std::size_t count, float* dst) {
  decode_values(src, type, count, dst);
}

HWY_INLINE hn::VFromD<hn::Rebind<hwy::float16_t, FloatTag>> round_to(hwy::float16_t, hn::VFromD<FloatTag> v) {
  return hn::DemoteTo(hn::Rebind<hwy::float16_t, FloatTag>(), v);
}

/// In integers, because the instruction for it flushes denormals.
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

HWY_EXPORT(matmul);
HWY_EXPORT(to_float);
HWY_EXPORT(from_float);

void matmul(std::span<const FloatOutput> outputs, const float* src, std::size_t m) {
  HWY_DYNAMIC_DISPATCH(matmul)(outputs, src, m);
}

void to_float(const void* src, FloatType type, std::size_t count, float* dst) {
  HWY_DYNAMIC_DISPATCH(to_float)(src, type, count, dst);
}

void from_float(const float* src, std::size_t count, FloatType type, void* dst) {
  HWY_DYNAMIC_DISPATCH(from_float)(src, count, type, dst);
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
