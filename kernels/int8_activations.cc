#include <cassert>
#include <cstring>

#include "kernels/parallel.h"
#include "kernels/quantized_storage.h"
#include "kernels/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/int8_activations.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/int8_rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

void quantize_token(const float* src, std::size_t token, Int8Activations::Storage& s) {
  const GroupLayout& layout = s.layout;
  const float token_maximum = s.format.scale_per_group ? 0.0F : absolute_maximum(src, layout.cols);
  std::int8_t* codes = s.codes.data() + token * layout.padded_cols();
  const std::size_t first_group = token * layout.groups;
  for (std::size_t group = 0; group < layout.groups; ++group) {
    const float* group_src = src + group * layout.group_size;
    const std::size_t count = layout.columns_in(group);
    const std::size_t padded = layout.pairs_in(group) * GroupLayout::kPairColumns;
    const float maximum = s.format.scale_per_group ? absolute_maximum(group_src, count) : token_maximum;
    std::int32_t sum;
    s.scales.data()[first_group + group] = quantize_group(group_src, count, maximum, codes, sum);
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
