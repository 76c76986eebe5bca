#include "kernels/statistics.h"

#include <bit>
#include <cmath>

#include "kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/statistics.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

using Tag = hn::ScalableTag<float>;
using DoubleTag = hn::Repartition<double, Tag>;

/// Processes one vector of columns, from the first row to the last; loads and stores are limited to `count` columns.
void accumulate_vector(const float* src, std::size_t m, std::size_t stride, std::size_t count, float* min, float* max,
                       double* sum, double* sum_squares) {
  const Tag df;
  const DoubleTag dd;
  const std::size_t half = hn::Lanes(dd);
  const std::size_t low = HWY_MIN(count, half);
  const std::size_t high = count - low;
  auto least = hn::LoadN(df, min, count);
  auto most = hn::LoadN(df, max, count);
  auto sum0 = hn::LoadN(dd, sum, low), sum1 = hn::LoadN(dd, sum + low, high);
  auto squares0 = hn::LoadN(dd, sum_squares, low), squares1 = hn::LoadN(dd, sum_squares + low, high);
  for (std::size_t i = 0; i < m; ++i, src += stride) {
    const auto v = count == 2 * half ? hn::LoadU(df, src) : hn::LoadN(df, src, count);
    least = hn::Min(least, v);
    most = hn::Max(most, v);
    const auto v0 = hn::PromoteLowerTo(dd, v);
    const auto v1 = hn::PromoteUpperTo(dd, v);
    sum0 = hn::Add(sum0, v0);
    sum1 = hn::Add(sum1, v1);
    squares0 = hn::MulAdd(v0, v0, squares0);
    squares1 = hn::MulAdd(v1, v1, squares1);
  }
  hn::StoreN(least, df, min, count);
  hn::StoreN(most, df, max, count);
  hn::StoreN(sum0, dd, sum, low);
  hn::StoreN(sum1, dd, sum + low, high);
  hn::StoreN(squares0, dd, sum_squares, low);
  hn::StoreN(squares1, dd, sum_squares + low, high);
}

void accumulate_columns(const float* src, std::size_t m, std::size_t cols, std::size_t stride, const ColumnSums& sums) {
  const std::size_t lanes = hn::Lanes(Tag());
  parallel_ranges((cols + lanes - 1) / lanes, threads_for(m * cols), [&](std::size_t begin, std::size_t end) HWY_ATTR {
    for (std::size_t v = begin; v < end; ++v) {
      const std::size_t c = v * lanes;
      accumulate_vector(src + c, m, stride, HWY_MIN(lanes, cols - c), sums.min + c, sums.max + c, sums.sum + c,
                        sums.sum_squares + c);
    }
  });
}

void accumulate_magnitudes(const float* src, std::size_t count, std::uint64_t* histogram) {
  const Tag df;
  const hn::RebindToUnsigned<Tag> du32;
  const std::size_t lanes = hn::Lanes(df);
  HWY_ALIGN std::uint32_t buckets[hn::MaxLanes(df)];
  for (std::size_t i = 0; i < count; i += lanes) {
    const std::size_t valid = HWY_MIN(lanes, count - i);
    const auto magnitude = hn::Abs(hn::LoadN(df, src + i, valid));
    hn::Store(hn::ShiftRight<kMagnitudeShift>(hn::BitCast(du32, magnitude)), du32, buckets);
    for (std::size_t j = 0; j < valid; ++j) ++histogram[buckets[j]];
  }
}

bool all_finite(const float* src, std::size_t count) {
  const Tag df;
  const std::size_t lanes = hn::Lanes(df);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    if (!hn::AllTrue(df, hn::IsFinite(hn::LoadU(df, src + i)))) return false;
  }
  return i == count || hn::AllTrue(df, hn::IsFinite(hn::LoadN(df, src + i, count - i)));
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(accumulate_columns);
HWY_EXPORT(accumulate_magnitudes);
HWY_EXPORT(all_finite);

void accumulate_columns(const float* src, std::size_t m, std::size_t cols, std::size_t stride, const ColumnSums& sums) {
  HWY_DYNAMIC_DISPATCH(accumulate_columns)(src, m, cols, stride, sums);
}

void accumulate_magnitudes(const float* src, std::size_t count, std::span<std::uint64_t> histogram) {
  HWY_DYNAMIC_DISPATCH(accumulate_magnitudes)(src, count, histogram.data());
}

double magnitude_quantile(std::span<const std::uint64_t> histogram, double fraction) {
  std::uint64_t total = 0;
  std::size_t last = 0;
  for (std::size_t bucket = 0; bucket < histogram.size(); ++bucket) {
    total += histogram[bucket];
    if (histogram[bucket] != 0) last = bucket;
  }
  if (total == 0) return 0.0;
  const double wanted = fraction * static_cast<double>(total);
  double below = 0.0;
  std::size_t bucket = 0;
  for (; bucket < last; ++bucket) {
    const double count = static_cast<double>(histogram[bucket]);
    if (count != 0.0 && below + count >= wanted) break;
    below += count;
  }
  const auto lower_end = [](std::size_t b) {
    return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(b) << kMagnitudeShift));
  };
  const double low = lower_end(bucket);
  const double high = lower_end(bucket + 1);
  if (!std::isfinite(high)) return low;
  return low + (high - low) * (wanted - below) / static_cast<double>(histogram[bucket]);
}

bool all_finite(const float* src, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(all_finite)(src, count);
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
