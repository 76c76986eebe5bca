#include "kernels/float_matrix.h"

#include <algorithm>

#include "kernels/parallel.h"
#include "kernels/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/float_matrix.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/float_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// Dot products of one row of activations with four rows of weights.
template <class T>
HWY_INLINE void dot_four_rows(const T* HWY_RESTRICT wei, std::size_t stride, const float* HWY_RESTRICT src,
                              std::size_t cols, float* HWY_RESTRICT sums) {
  const FloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  auto c0 = hn::Zero(df), c1 = c0, c2 = c0, c3 = c0;
  std::size_t c = 0;
  for (; c + lanes <= cols; c += lanes) {
    const auto a = hn::LoadU(df, src + c);
    c0 = hn::MulAdd(a, load_as_float(df, wei + c), c0);
    c1 = hn::MulAdd(a, load_as_float(df, wei + stride + c), c1);
    c2 = hn::MulAdd(a, load_as_float(df, wei + 2 * stride + c), c2);
    c3 = hn::MulAdd(a, load_as_float(df, wei + 3 * stride + c), c3);
  }
  const std::size_t left = cols - c;
  if (left != 0) {
    const auto a = hn::LoadN(df, src + c, left);
    c0 = hn::MulAdd(a, load_as_float_n(df, wei + c, left), c0);
    c1 = hn::MulAdd(a, load_as_float_n(df, wei + stride + c, left), c1);
    c2 = hn::MulAdd(a, load_as_float_n(df, wei + 2 * stride + c, left), c2);
    c3 = hn::MulAdd(a, load_as_float_n(df, wei + 3 * stride + c, left), c3);
  }
  sums[0] = hn::ReduceSum(df, c0);
  sums[1] = hn::ReduceSum(df, c1);
  sums[2] = hn::ReduceSum(df, c2);
  sums[3] = hn::ReduceSum(df, c3);
}

/// Few tokens: the weights are read once, in order, from where they lie.
template <class T>
void multiply_few(const FloatMatrix& wei, const float* src, std::size_t m, const float* bias, float* dst,
                  std::size_t dst_stride) {
  const T* data = static_cast<const T*>(wei.data);
  parallel_ranges((wei.rows + 3) / 4, threads_for(m * wei.rows * wei.cols),
                  [&](std::size_t begin, std::size_t end) HWY_ATTR {
                    for (std::size_t quad = begin; quad < end; ++quad) {
                      const std::size_t row = 4 * quad;
                      const std::size_t rows = HWY_MIN(wei.rows - row, std::size_t{4});
                      for (std::size_t i = 0; i < m; ++i) {
                        float sums[4];
                        const float* token = src + i * wei.cols;
                        if (rows == 4) {
                          dot_four_rows(data + row * wei.cols, wei.cols, token, wei.cols, sums);
                        } else {  // the last few rows, one at a time: four times the same, of which one is kept
                          for (std::size_t r = 0; r < rows; ++r) {
                            float same[4];
                            dot_four_rows(data + (row + r) * wei.cols, 0, token, wei.cols, same);
                            sums[r] = same[0];
                          }
                        }
                        for (std::size_t r = 0; r < rows; ++r) {
                          dst[i * dst_stride + row + r] = sums[r] + (bias == nullptr ? 0.0F : bias[row + r]);
                        }
                      }
                    }
                  });
}

void multiply_many(const FloatMatrix& wei, const float* src, std::size_t m, const float* bias, float* dst,
                   std::size_t dst_stride) {
  const FloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  const std::size_t width = panel_rows();
  const std::size_t panels = (wei.rows + width - 1) / width;
  const std::size_t threads = threads_for(m * wei.rows * wei.cols);
  const TokenBlocks blocks(m, kTileRows, panels, threads);
  const ThreadScratch scratch(threads, width * wei.cols);
  const char* data = static_cast<const char*>(wei.data);
  parallel_tasks(panels * blocks.count, threads, [&](std::size_t task, std::size_t thread) HWY_ATTR {
    const std::size_t row = task / blocks.count * width;
    const std::size_t rows = HWY_MIN(width, wei.rows - row);
    const std::size_t first = task % blocks.count * blocks.size;
    float* panel = scratch.of(thread);
    decode_panel(data + row * wei.cols * float_type_bytes(wei.type), wei.type, wei.cols, rows, wei.cols, panel);
    const auto bias0 = load_or_zero(df, bias, row, wei.rows);
    const auto bias1 = load_or_zero(df, bias, row + lanes, wei.rows);
    float* out = dst + first * dst_stride + row;
    multiply_panel(src + first * wei.cols, HWY_MIN(blocks.size, m - first), wei.cols, panel, width, wei.cols,
                   [&](std::size_t i, auto c0, auto c1) HWY_ATTR {
                     store_pair(df, hn::Add(c0, bias0), hn::Add(c1, bias1), rows, out + i * dst_stride);
                   });
  });
}

void matmul(const FloatMatrix& wei, const float* src, std::size_t m, const float* bias, float* dst,
            std::size_t dst_stride) {
  // Below this a panel costs more to transpose than it saves (SmolLM2's shapes, F16, Zen 4).
  constexpr std::size_t kFewTokens = 7;
  if (m > kFewTokens) return multiply_many(wei, src, m, bias, dst, dst_stride);
  switch (wei.type) {
    case FloatType::kF32:
      return multiply_few<float>(wei, src, m, bias, dst, dst_stride);
    case FloatType::kF16:
      return multiply_few<hwy::float16_t>(wei, src, m, bias, dst, dst_stride);
    case FloatType::kBF16:
      return multiply_few<hwy::bfloat16_t>(wei, src, m, bias, dst, dst_stride);
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

void matmul(const FloatMatrix& wei, const float* src, std::size_t m, const float* bias, float* dst,
            std::size_t dst_stride) {
  if (m == 0 || wei.rows == 0) return;
  HWY_DYNAMIC_DISPATCH(matmul)(wei, src, m, bias, dst, dst_stride);
}

void to_float(const void* src, FloatType type, std::size_t count, float* dst) {
  HWY_DYNAMIC_DISPATCH(to_float)(src, type, count, dst);
}

void from_float(const float* src, std::size_t count, FloatType type, void* dst) {
  HWY_DYNAMIC_DISPATCH(from_float)(src, count, type, dst);
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
