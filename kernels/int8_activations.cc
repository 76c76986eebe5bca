#include <cassert>
#include <cstring>

#include "kernels/parallel.h"
#include "kernels/quantized_storage.h"
#include "kernels/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/int8_activations.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// Below this a magnitude counts as 0: its reciprocal would overflow.
inline constexpr float kSmallestMagnitude = 1e-30F;

float absolute_maximum(const float* HWY_RESTRICT src, std::size_t count) {
  const hn::ScalableTag<float> df;
  const std::size_t lanes = hn::Lanes(df);
  auto max = hn::Zero(df);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) max = hn::Max(max, hn::Abs(hn::LoadU(df, src + i)));
  if (i < count) max = hn::Max(max, hn::Abs(hn::LoadN(df, src + i, count - i)));
  return hn::ReduceMax(df, max);
}

/// codes[i] = src[i] * inverse, ties to even; returns their sum.
std::int32_t quantize_group(const float* HWY_RESTRICT src, std::size_t count, float inverse,
                            std::int8_t* HWY_RESTRICT codes) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di32;
  const hn::Rebind<std::int8_t, decltype(df)> di8;
  const std::size_t lanes = hn::Lanes(df);
  const auto factor = hn::Set(df, inverse);
  auto sum = hn::Zero(di32);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto rounded = hn::NearestInt(hn::Mul(hn::LoadU(df, src + i), factor));
    sum = hn::Add(sum, rounded);
    hn::StoreU(hn::DemoteTo(di8, rounded), di8, codes + i);
  }
  if (i < count) {
    const auto rounded = hn::NearestInt(hn::Mul(hn::LoadN(df, src + i, count - i), factor));
    sum = hn::Add(sum, rounded);
    hn::StoreN(hn::DemoteTo(di8, rounded), di8, codes + i, count - i);
  }
  return hn::ReduceSum(di32, sum);
}

void quantize_token(const float* src, std::size_t token, Int8Activations::Storage& s) {
  const GroupLayout& layout = s.layout;
  const float token_maximum = s.format.scale_per_group ? 0.0F : absolute_maximum(src, layout.cols);
  std::int8_t* codes = s.codes.data() + token * layout.padded_cols();
  const std::size_t first_group = token * layout.groups;
  for (std::size_t group = 0; group < layout.groups; ++group) {
    const float* group_src = src + group * layout.group_size;
    const std::size_t count = layout.columns_in(group);
    const std::size_t padded = layout.pairs_in(group) * GroupLayout::kPairColumns;
    float maximum = s.format.scale_per_group ? absolute_maximum(group_src, count) : token_maximum;
    if (maximum < kSmallestMagnitude) maximum = 0.0F;
    const std::int32_t sum = quantize_group(group_src, count, maximum == 0.0F ? 0.0F : 127.0F / maximum, codes);
    s.scales.data()[first_group + group] = maximum / 127.0F;
    s.sums.data()[first_group + group] = sum;
    s.offsets4.data()[first_group + group] = -8 * sum;
    s.offsets8.data()[first_group + group] = -128 * sum;
    for (std::size_t i = count; i < padded; ++i) codes[i] = 0;
    codes += padded;
  }
}

void quantize(const float* src, std::size_t m, Int8Activations::Storage& s) {
  const std::size_t cols = s.layout.cols;
  const std::size_t outliers = s.format.outlier_columns.size();
  const std::size_t threads = threads_for(m * cols);
  const ThreadScratch scratch(threads, outliers == 0 ? 0 : cols);
  parallel_tasks(m, threads, [&](std::size_t token, std::size_t thread) HWY_ATTR {
    const float* row = src + token * cols;
    if (outliers != 0) {
      float* rest = scratch.of(thread);
      std::memcpy(rest, row, cols * sizeof(float));
      for (std::size_t j = 0; j < outliers; ++j) {
        const std::int32_t column = s.format.outlier_columns[j];
        s.outliers.data()[token * outliers + j] = row[column];
        rest[column] = 0.0F;
      }
      row = rest;
    }
    quantize_token(row, token, s);
  });
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(quantize);

Int8Activations::Int8Activations() : storage_(std::make_unique<Storage>()) {}
Int8Activations::~Int8Activations() = default;
Int8Activations::Int8Activations(Int8Activations&&) noexcept = default;
Int8Activations& Int8Activations::operator=(Int8Activations&&) noexcept = default;

void Int8Activations::quantize(const float* src, std::size_t m, const ActivationFormat& format) {
  assert(format.group_size > 0);
  Storage& s = *storage_;
  if (!(s.format == format)) s.format = format;
  s.layout = GroupLayout(format.cols, format.group_size);
  s.m = m;
  s.codes.grow(m * s.layout.padded_cols());
  s.scales.grow(m * s.layout.groups);
  s.sums.grow(m * s.layout.groups);
  s.offsets4.grow(m * s.layout.groups);
  s.offsets8.grow(m * s.layout.groups);
  s.outliers.grow(m * format.outlier_columns.size());
  HWY_DYNAMIC_DISPATCH(quantize)(src, m, s);
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
