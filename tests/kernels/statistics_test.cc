#include "kernels/statistics.h"

#include <algorithm>

#include "kernel_cases.h"

namespace ballast::kernels {
namespace {

struct Columns {
  std::vector<float> min, max;
  std::vector<double> sum, sum_squares;

  explicit Columns(std::size_t cols) : min(cols, INFINITY), max(cols, -INFINITY), sum(cols), sum_squares(cols) {}
  ColumnSums sums() { return {min.data(), max.data(), sum.data(), sum_squares.data()}; }
  bool operator==(const Columns&) const = default;
};

TEST_CASE("column reductions equal plain loops in the same order, over several calls and any number of threads") {
  for (const std::size_t cols : {1, 3, 8, 15, 16, 17, 33, 576}) {
    const std::size_t m = 37, stride = cols + 2;
    const std::vector<float> src = random_floats(2 * m * stride, 1, 100.0F);
    Columns expected(cols);
    for (std::size_t i = 0; i < 2 * m; ++i) {
      for (std::size_t c = 0; c < cols; ++c) {
        const float v = src[i * stride + c];
        expected.min[c] = std::min(expected.min[c], v);
        expected.max[c] = std::max(expected.max[c], v);
        expected.sum[c] += v;
        expected.sum_squares[c] += static_cast<double>(v) * v;
      }
    }
    for_every_target([&] {
      for (const int threads : {1, 2}) {
        const Columns actual = with_threads(threads, [&] {
          Columns columns(cols);
          accumulate_columns(src.data(), m, cols, stride, columns.sums());
          accumulate_columns(src.data() + m * stride, m, cols, stride, columns.sums());
          return columns;
        });
        CHECK(actual == expected);
      }
    });
  }
}

TEST_CASE("quantiles of magnitudes are within a bucket of the sorted values") {
  const std::size_t count = 10'001;
  std::vector<float> src = random_floats(count, 1);
  std::vector<float> sorted;
  for (const float v : src) sorted.push_back(std::fabs(v));
  std::sort(sorted.begin(), sorted.end());
  for_every_target([&] {
    std::vector<std::uint64_t> histogram(kMagnitudeBuckets);
    accumulate_magnitudes(src.data(), 5000, histogram);
    accumulate_magnitudes(src.data() + 5000, count - 5000, histogram);
    for (const double fraction : {0.01, 0.25, 0.5, 0.9, 0.999, 1.0}) {
      const std::size_t index = std::min(count - 1, static_cast<std::size_t>(fraction * count));
      CHECK(magnitude_quantile(histogram, fraction) == doctest::Approx(sorted[index]).epsilon(0.02));
    }
  });
  CHECK(magnitude_quantile(std::vector<std::uint64_t>(kMagnitudeBuckets), 0.5) == 0.0);
}

TEST_CASE("all_finite finds a NaN or an infinity at any position") {
  for_every_target([&] {
    for (const std::size_t size : {1, 15, 16, 17, 40}) {
      std::vector<float> values = random_floats(size, 1);
      CHECK(all_finite(values.data(), size));
      for (std::size_t at = 0; at < size; ++at) {
        for (const float bad : {NAN, INFINITY, -INFINITY}) {
          const float before = values[at];
          values[at] = bad;
          CHECK_FALSE(all_finite(values.data(), size));
          values[at] = before;
        }
      }
    }
  });
}

}  // namespace
}  // namespace ballast::kernels
