#include <algorithm>
#include <cassert>

#include "kernels/parallel.h"
#include "kernels/quantized_storage.h"
#include "kernels/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantized_activations.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/integer_rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// One token's integers: codes [planes][padded_cols], scales [groups], negated sums [planes][groups].
struct TokenCodes {
  std::int8_t* codes;
  float* scales;
  std::int32_t* negated_sums;
};

/// Sets the values of outlier columns to 0 in a copy of `src`.
HWY_INLINE void copy_kept(const float* HWY_RESTRICT src, const std::uint32_t* HWY_RESTRICT kept, std::size_t count,
                          float* HWY_RESTRICT dst) {
  const hn::ScalableTag<float> df;
  const hn::RebindToUnsigned<decltype(df)> du32;
  const std::size_t lanes = hn::Lanes(df);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::And(hn::LoadU(df, src + i), hn::BitCast(df, hn::LoadU(du32, kept + i))), df, dst + i);
  }
  for (; i < count; ++i) dst[i] = kept[i] != 0 ? src[i] : 0.0F;
}

void quantize_token(const float* src, const QuantizedActivations::Storage& s, const TokenCodes& token) {
  const GroupLayout& layout = s.layout;
  const std::size_t padded_cols = layout.padded_cols();
  const bool wide = s.format.bits == 16;
  // Columns that share a scale: parts of one group do, unless they have 16 bits.
  const std::size_t shared = wide ? layout.group_size : s.format.scale_per_group ? s.format.group_size : layout.cols;
  const std::size_t groups_of_scale = (shared + layout.group_size - 1) / layout.group_size;
  float maximum = 0.0F;
  for (std::size_t group = 0; group < layout.groups; ++group) {
    const std::size_t begin = group * layout.group_size;
    if (group % groups_of_scale == 0) {
      maximum = absolute_maximum(src + begin, std::min(shared, layout.cols - begin));
    }
    const std::size_t count = layout.columns_in(group);
    std::int8_t* codes = token.codes + layout.padded_begin(group);
    std::int32_t sum = 0;
    if (wide) {
      std::int32_t low_sum = 0;
      token.scales[group] =
          quantize_group_to_16(src + begin, count, maximum, kPlaneFactor, codes, codes + padded_cols, sum, low_sum);
      token.negated_sums[layout.groups + group] = -low_sum;
    } else {
      token.scales[group] = quantize_group(src + begin, count, maximum, codes, sum);
    }
    token.negated_sums[group] = -sum;
    for (std::size_t i = count; i < layout.blocks_in(group) * kBlockColumns; ++i) {
      codes[i] = 0;
      if (wide) codes[padded_cols + i] = 0;
    }
  }
}

void quantize_row(const RowSource& rows, std::size_t token, float* scratch, QuantizedActivations::Storage& s) {
  const std::size_t cols = s.layout.cols;
  const std::size_t outliers = s.format.outlier_columns.size();
  const std::size_t planes = s.planes();
  const float* row = rows.row(token, scratch);
  if (outliers != 0) {
    for (std::size_t j = 0; j < outliers; ++j) {
      s.outliers.data()[token * outliers + j] = row[s.format.outlier_columns[j]];
    }
    copy_kept(row, s.kept.data(), cols, scratch + cols);
    row = scratch + cols;
  }
  quantize_token(row, s,
                 {s.codes.data() + token * planes * s.layout.padded_cols(), s.scales.data() + token * s.layout.groups,
                  s.negated_sums.data() + token * planes * s.layout.groups});
}

void quantize(const RowSource& rows, QuantizedActivations::Storage& s) {
  // Neighbours go to one thread: what they write shares cache lines (one token a task took four times as long).
  constexpr std::size_t kTokensOfTask = 8;
  const std::size_t threads = threads_for(s.m * s.layout.cols);
  const TokenHomes homes(s.m, threads);
  const ThreadScratch scratch(threads, 2 * s.layout.cols);
  const std::size_t tasks = (homes.largest() + kTokensOfTask - 1) / kTokensOfTask;
  parallel_homes(homes.count, tasks, threads, [&](std::size_t home, std::size_t task, std::size_t thread) HWY_ATTR {
    const std::size_t begin = homes.begin(home) + task * kTokensOfTask;
    const std::size_t end = HWY_MIN(homes.begin(home + 1), begin + kTokensOfTask);
    for (std::size_t token = begin; token < end; ++token) quantize_row(rows, token, scratch.of(thread), s);
  });
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(quantize);

QuantizedActivations::QuantizedActivations() : storage_(std::make_unique<Storage>()) {}
QuantizedActivations::~QuantizedActivations() = default;
QuantizedActivations::QuantizedActivations(QuantizedActivations&&) noexcept = default;
QuantizedActivations& QuantizedActivations::operator=(QuantizedActivations&&) noexcept = default;

std::size_t QuantizedActivations::m() const {
  return storage_->m;
}

void QuantizedActivations::quantize(const RowSource& rows, std::size_t m, const ActivationFormat& format) {
  assert(format.group_size > 0 && (format.bits == 8 || format.bits == 16));
  Storage& s = *storage_;
  if (!(s.format == format)) {
    s.format = format;
    s.layout = GroupLayout(format.cols, format.group_size);
    s.kept.grow(format.cols);
    std::fill_n(s.kept.data(), format.cols, ~std::uint32_t{0});
    for (const std::int32_t column : format.outlier_columns) s.kept.data()[column] = 0;
  }
  s.m = m;
  s.codes.grow(m * s.planes() * s.layout.padded_cols());
  s.scales.grow(m * s.layout.groups);
  s.negated_sums.grow(m * s.planes() * s.layout.groups);
  s.outliers.grow(m * format.outlier_columns.size());
  HWY_DYNAMIC_DISPATCH(quantize)(rows, s);
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
