#include "kernels/matrix/head_matrices.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "kernels/float_gemm.h"
#include "kernels/parallel.h"
#include "kernels/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matrix/head_matrices.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/matrix/float_tile-inl.h"

#ifndef BALLAST_KERNELS_HEAD_MATRICES_ONCE_
#define BALLAST_KERNELS_HEAD_MATRICES_ONCE_
namespace ballast::kernels {

/// The arguments of one call.
struct HeadMatrices::View {
  const Shape& shape;
  FloatType type;
  const std::byte* panels;  ///< [heads][panels_of_head][inputs][width]
  std::size_t panels_of_head;
  const float* factors;  ///< [heads]
  const float* bias;     ///< [heads][outputs], or null
  HeadRows<const float> src;
  HeadRows<float> dst;
};

}  // namespace ballast::kernels
#endif  // BALLAST_KERNELS_HEAD_MATRICES_ONCE_

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// Multiplies one panel with `m` rows; `scratch` is [inputs][panel_rows()], used with more rows than a tile has.
template <class T>
HWY_NOINLINE void multiply_head_panel(const HeadMatrices::View& view, std::size_t index, std::size_t m,
                                      float* scratch) {
  const FloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  const std::size_t width = panel_rows();
  const std::size_t inputs = view.shape.inputs, outputs = view.shape.outputs;
  const std::size_t head = index / view.panels_of_head;
  const std::size_t first = index % view.panels_of_head * width;  // of the head's outputs
  const T* panel = reinterpret_cast<const T*>(view.panels) + index * inputs * width;
  const float* src = view.src.data + head * view.src.head_stride;
  const float* bias = view.bias == nullptr ? nullptr : view.bias + head * outputs;
  const auto factor = hn::Set(df, view.factors[head]);
  const auto bias0 = load_or_zero(df, bias, first, outputs), bias1 = load_or_zero(df, bias, first + lanes, outputs);
  float* dst = view.dst.data + head * view.dst.head_stride + first;
  const auto store = [&](std::size_t row, auto c0, auto c1) HWY_ATTR {
    store_pair(df, hn::Add(hn::Mul(c0, factor), bias0), hn::Add(hn::Mul(c1, factor), bias1), outputs - first,
               dst + row * view.dst.stride);
  };
  if (m <= kTileRows) {
    multiply_tile_of<kTileRows>(m, src, view.src.stride, panel, width, inputs, store);
    return;
  }
  const float* decoded = scratch;
  if constexpr (sizeof(T) == sizeof(float)) {
    decoded = panel;
  } else {
    decode_values_of(panel, inputs * width, scratch);
  }
  multiply_panel(src, m, view.src.stride, decoded, width, inputs, store);
}

void multiply_heads(const HeadMatrices::View& view, std::size_t m) {
  const std::size_t panels = view.shape.heads * view.panels_of_head;
  const std::size_t threads = threads_for(m * panels * panel_rows() * view.shape.inputs);
  const ThreadScratch scratch(threads, view.shape.inputs * panel_rows());
  const auto one = [&](std::size_t index, float* memory) {
    switch (view.type) {
      case FloatType::kF32:
        return multiply_head_panel<float>(view, index, m, memory);
      case FloatType::kF16:
        return multiply_head_panel<hwy::float16_t>(view, index, m, memory);
      case FloatType::kBF16:
        return multiply_head_panel<hwy::bfloat16_t>(view, index, m, memory);
    }
  };
  if (m <= kTileRows) {  // bound by memory: each thread reads its share of the panels in order
    parallel_ranges(panels, threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) one(i, nullptr);
    });
    return;
  }
  parallel_tasks(panels, threads, [&](std::size_t task, std::size_t thread) { one(task, scratch.of(thread)); });
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(multiply_heads);

namespace {

/// Returns the power of two that scales `largest` to 2^14 .. 2^15, half of F16's range; 1 if that is not possible.
float power_for(float largest) {
  constexpr int kTop = 15;
  if (!(largest > 0.0F) || !std::isfinite(largest)) return 1.0F;
  int exponent;
  std::frexp(largest, &exponent);  // largest < 2^exponent
  return std::ldexp(1.0F, std::clamp(kTop - exponent, -100, 100));
}

}  // namespace

std::size_t HeadMatrices::panels() const {
  return (shape_.outputs + width_ - 1) / width_;
}

HeadMatrices::HeadMatrices(const Shape& shape, const Format& format,
                           const std::function<void(std::size_t row, float* dst)>& decode)
    : shape_(shape), format_(format), width_(own_tile_width()), factors_(shape.heads, 1.0F) {
  const std::size_t values = shape.heads * panels() * shape.inputs * width_;
  memory_ = allocate_weights(values * float_type_bytes(format.type));
  TaskFailure failure;
  parallel_tasks(shape.heads, threads_for(values),
                 [&](std::size_t head, std::size_t) { failure.keep(head, [&] { pack(head, decode); }); });
  failure.rethrow();
}

void HeadMatrices::pack(std::size_t head, const std::function<void(std::size_t row, float* dst)>& decode) {
  const bool by_input = shape_.rows == Rows::kInputs;
  const std::size_t rows = by_input ? shape_.inputs : shape_.outputs;
  const std::size_t cols = by_input ? shape_.outputs : shape_.inputs;
  const std::size_t bytes = float_type_bytes(format_.type);
  const std::size_t panel_bytes = shape_.inputs * width_ * bytes;
  std::byte* dst = memory_.get() + head * panels() * panel_bytes;
  std::memset(dst, 0, panels() * panel_bytes);  // outputs beyond the last
  std::vector<float> row(cols);
  float power = 1.0F;
  if (format_.scaled) {
    float largest = 0.0F;
    for (std::size_t r = 0; r < rows; ++r) {
      decode(head * rows + r, row.data());
      for (const float value : row) largest = std::max(largest, std::fabs(value));
    }
    power = power_for(largest);
    factors_[head] = 1.0F / power;
  }
  std::vector<std::byte> encoded(cols * bytes);
  for (std::size_t r = 0; r < rows; ++r) {
    decode(head * rows + r, row.data());
    for (float& value : row) value *= power;
    from_float(row.data(), cols, format_.type, encoded.data());
    if (by_input) {
      for (std::size_t first = 0; first < cols; first += width_) {
        std::memcpy(dst + first / width_ * panel_bytes + r * width_ * bytes, encoded.data() + first * bytes,
                    std::min(width_, cols - first) * bytes);
      }
    } else {
      std::byte* of_output = dst + r / width_ * panel_bytes + r % width_ * bytes;
      for (std::size_t c = 0; c < cols; ++c) {
        std::memcpy(of_output + c * width_ * bytes, encoded.data() + c * bytes, bytes);
      }
    }
  }
}

void HeadMatrices::multiply(const HeadRows<const float>& src, std::size_t m, const float* bias,
                            const HeadRows<float>& dst) const {
  if (m == 0) return;
  HWY_DYNAMIC_DISPATCH(multiply_heads)({.shape = shape_,
                                        .type = format_.type,
                                        .panels = memory_.get(),
                                        .panels_of_head = panels(),
                                        .factors = factors_.data(),
                                        .bias = bias,
                                        .src = src,
                                        .dst = dst},
                                       m);
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
