// Reductions over activations for calibration.
#ifndef BALLAST_KERNELS_STATISTICS_H_
#define BALLAST_KERNELS_STATISTICS_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::kernels {

/// Running reductions per column; every array has `cols` entries.
struct ColumnSums {
  float* min = nullptr;
  float* max = nullptr;
  double* sum = nullptr;
  double* sum_squares = nullptr;
};

/// Adds src [m][cols], rows `stride` floats apart, to `sums`. Parallel over columns, so the result does not depend on
/// the number of threads.
void accumulate_columns(const float* src, std::size_t m, std::size_t cols, std::size_t stride, const ColumnSums& sums);

/// Histogram of magnitudes by the leading bits of their F32 form: bucket = bits(|x|) >> kMagnitudeShift.
inline constexpr int kMagnitudeShift = 14;
inline constexpr std::size_t kMagnitudeBuckets = std::size_t{1} << (31 - kMagnitudeShift);

/// Adds `count` magnitudes to `histogram` [kMagnitudeBuckets]. Single-threaded.
void accumulate_magnitudes(const float* src, std::size_t count, std::span<std::uint64_t> histogram);

/// Returns the magnitude below which `fraction` of the histogram is, interpolated inside its bucket (0.2 % wide).
double magnitude_quantile(std::span<const std::uint64_t> histogram, double fraction);

/// Returns whether every value is finite.
bool all_finite(const float* src, std::size_t count);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_STATISTICS_H_
