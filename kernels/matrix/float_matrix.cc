#include "kernels/matrix/float_matrix.h"

#include <type_traits>

#include "kernels/parallel.h"
#include "kernels/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matrix/float_matrix.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/matrix/float_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// Dot product of one row of weights with one of activations. Rows are taken one after the other, because a core reads
/// one stream twice as fast as four that run side by side (BF16, rows of 576 and 1536, Zen 4).
template <class T>
HWY_INLINE float dot_row(const T* HWY_RESTRICT wei, const float* HWY_RESTRICT src, std::size_t cols) {
  const FloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  auto c0 = hn::Zero(df), c1 = c0, c2 = c0, c3 = c0;
  std::size_t c = 0;
  for (; c + 4 * lanes <= cols; c += 4 * lanes) {
    c0 = hn::MulAdd(hn::LoadU(df, src + c), load_as_float(df, wei + c), c0);
    c1 = hn::MulAdd(hn::LoadU(df, src + c + lanes), load_as_float(df, wei + c + lanes), c1);
    c2 = hn::MulAdd(hn::LoadU(df, src + c + 2 * lanes), load_as_float(df, wei + c + 2 * lanes), c2);
    c3 = hn::MulAdd(hn::LoadU(df, src + c + 3 * lanes), load_as_float(df, wei + c + 3 * lanes), c3);
  }
  for (; c + lanes <= cols; c += lanes) c0 = hn::MulAdd(hn::LoadU(df, src + c), load_as_float(df, wei + c), c0);
  if (const std::size_t left = cols - c; left != 0) {
    c1 = hn::MulAdd(hn::LoadN(df, src + c, left), load_as_float_n(df, wei + c, left), c1);
  }
  return hn::ReduceSum(df, hn::Add(hn::Add(c0, c1), hn::Add(c2, c3)));
}

template <class T>
HWY_NOINLINE void multiply_rows(const FloatOutput& output, std::size_t begin, std::size_t end, const float* src,
                                std::size_t m) {
  const std::size_t cols = output.matrix->cols;
  const T* row = static_cast<const T*>(output.matrix->data) + begin * cols;
  for (std::size_t r = begin; r < end; ++r, row += cols) {
    for (std::size_t i = 0; i < m; ++i) {
      float& dst = output.dst[i * output.stride + r];
      const float sum = dot_row(row, src + i * cols, cols) + (output.bias == nullptr ? 0.0F : output.bias[r]);
      dst = output.accumulate ? dst + sum : sum;
    }
  }
}

void multiply_rows_of_type(const FloatOutput& output, std::size_t begin, std::size_t end, const float* src,
                           std::size_t m) {
  switch (output.matrix->type) {
    case FloatType::kF32:
      return multiply_rows<float>(output, begin, end, src, m);
    case FloatType::kF16:
      return multiply_rows<hwy::float16_t>(output, begin, end, src, m);
    case FloatType::kBF16:
      return multiply_rows<hwy::bfloat16_t>(output, begin, end, src, m);
  }
}

/// Few tokens: the weights are read once, in order, from where they lie.
void multiply_few(std::span<const FloatOutput> outputs, std::size_t rows, const float* src, std::size_t m) {
  const std::size_t threads = threads_for(m * rows * outputs.front().matrix->cols);
  parallel_ranges(rows, threads, [&](std::size_t begin, std::size_t end) HWY_ATTR {
    std::size_t first = 0;  // of the output's rows, counted through all of them
    for (const FloatOutput& output : outputs) {
      const std::size_t last = first + output.matrix->rows;
      const std::size_t from = HWY_MAX(begin, first), to = HWY_MIN(end, last);
      if (from < to) multiply_rows_of_type(output, from - first, to - first, src, m);
      first = last;
    }
  });
}

std::size_t panels_of(const FloatMatrix& matrix) {
  return (matrix.rows + panel_rows() - 1) / panel_rows();
}

/// Tokens `first` .. `first` + `count` times one panel of weights, which is decoded to `decoded`.
void multiply_one_panel(const FloatOutput& output, std::size_t panel, const float* src, std::size_t first,
                        std::size_t count, float* decoded) {
  const FloatTag df;
  const FloatMatrix& wei = *output.matrix;
  const std::size_t row = panel * panel_rows();
  const std::size_t rows = HWY_MIN(panel_rows(), wei.rows - row);
  const char* data = static_cast<const char*>(wei.data);
  decode_panel(data + row * wei.cols * float_type_bytes(wei.type), wei.type, wei.cols, rows, wei.cols, decoded);
  const auto bias0 = load_or_zero(df, output.bias, row, wei.rows);
  const auto bias1 = load_or_zero(df, output.bias, row + hn::Lanes(df), wei.rows);
  float* dst = output.dst + first * output.stride + row;
  const auto multiply = [&](auto accumulate) HWY_ATTR {
    multiply_panel(src + first * wei.cols, count, wei.cols, decoded, panel_rows(), wei.cols,
                   [&](std::size_t i, auto c0, auto c1) HWY_ATTR {
                     float* to = dst + i * output.stride;
                     c0 = hn::Add(c0, bias0);
                     c1 = hn::Add(c1, bias1);
                     if constexpr (accumulate.value) {
                       c0 = hn::Add(c0, load_or_zero(df, to, 0, rows));
                       c1 = hn::Add(c1, load_or_zero(df, to, hn::Lanes(df), rows));
                     }
                     store_pair(df, c0, c1, rows, to);
                   });
  };
  if (output.accumulate) {
    multiply(std::true_type());
  } else {
    multiply(std::false_type());
  }
}

void multiply_many(std::span<const FloatOutput> outputs, std::size_t rows, const float* src, std::size_t m) {
  const std::size_t cols = outputs.front().matrix->cols;
  const std::size_t threads = threads_for(m * rows * cols);
  std::size_t panels = 0;
  for (const FloatOutput& output : outputs) panels += panels_of(*output.matrix);
  const TokenBlocks blocks(m, kTileRows, panels, threads);
  const ThreadScratch scratch(threads, panel_rows() * cols);
  parallel_tasks(panels * blocks.count, threads, [&](std::size_t task, std::size_t thread) HWY_ATTR {
    std::size_t panel = task / blocks.count;
    const FloatOutput* output = outputs.data();
    for (; panel >= panels_of(*output->matrix); ++output) panel -= panels_of(*output->matrix);
    const std::size_t first = task % blocks.count * blocks.size;
    multiply_one_panel(*output, panel, src, first, HWY_MIN(blocks.size, m - first), scratch.of(thread));
  });
}

void matmul(std::span<const FloatOutput> outputs, const float* src, std::size_t m) {
  // Below this a panel costs more to transpose than it saves (SmolLM2's shapes, F16, Zen 4).
  constexpr std::size_t kFewTokens = 7;
  std::size_t rows = 0;
  for (const FloatOutput& output : outputs) rows += output.matrix->rows;
  if (m == 0 || rows == 0) return;
  if (m > kFewTokens) {
    multiply_many(outputs, rows, src, m);
  } else {
    multiply_few(outputs, rows, src, m);
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
