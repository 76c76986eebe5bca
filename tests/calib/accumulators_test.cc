#include "calib/accumulators.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "with_threads.h"

namespace ballast::calib {
namespace {

std::vector<float> random_rows(std::size_t count) {
  std::mt19937 random(3);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random() % 20001) / 10000.0F - 0.8F;
  return values;
}

ChannelStatistics finished(ChannelRanges& ranges) {
  ranges.end_shard(0);
  return ranges.finish(single_rank());
}

TEST_CASE("channel ranges agree with a naive computation, and ordinary ranges exclude massive tokens") {
  constexpr std::size_t kRows = 11;
  constexpr std::size_t kChannels = 5;
  constexpr std::size_t kStride = 9;
  const std::vector<float> rows = random_rows(kRows * kStride);
  std::vector<std::uint8_t> massive(kRows);
  massive[0] = massive[4] = massive[5] = 1;
  ChannelRanges ranges(kChannels);
  ranges.add(rows.data(), kStride, massive);
  const ChannelStatistics got = finished(ranges);
  for (std::size_t c = 0; c < kChannels; ++c) {
    float low = 1e9F;
    float high = -1e9F;
    float ordinary = 0;
    double sum = 0;
    double squares = 0;
    for (std::size_t r = 0; r < kRows; ++r) {
      const float value = rows[r * kStride + c];
      low = std::min(low, value);
      high = std::max(high, value);
      sum += value;
      squares += double{value} * double{value};
      if (massive[r] == 0) ordinary = std::max(ordinary, std::abs(value));
    }
    CHECK(got.min[c] == low);
    CHECK(got.max[c] == high);
    CHECK(got.mean[c] == doctest::Approx(sum / kRows));
    CHECK(got.mean_square[c] == doctest::Approx(squares / kRows));
    CHECK(got.ordinary_absmax[c] == ordinary);
    CHECK(got.absmax(c) == std::max(std::abs(low), std::abs(high)));
  }
}

TEST_CASE("an input has no ordinary range if all tokens are massive") {
  const std::vector<float> rows = {1, -2};
  const std::vector<std::uint8_t> massive = {1};
  ChannelRanges ranges(2);
  ranges.add(rows.data(), 2, massive);
  const ChannelStatistics got = finished(ranges);
  CHECK(got.ordinary_absmax == std::vector<float>{0, 0});
  CHECK(got.min == std::vector<float>{1, -2});
}

TEST_CASE("an input that no token reached has zeros, not the result of a division by zero") {
  ChannelRanges ranges(2);
  const ChannelStatistics got = finished(ranges);
  for (const auto& values : {got.min, got.max, got.mean, got.mean_square, got.ordinary_absmax}) {
    CHECK(values == std::vector<float>{0, 0});
  }
}

TEST_CASE("batch boundaries and threads do not change channel ranges") {
  constexpr std::size_t kRows = 40;
  constexpr std::size_t kChannels = 70;
  const std::vector<float> rows = random_rows(kRows * kChannels);
  std::vector<std::uint8_t> massive(kRows);
  massive[7] = massive[20] = 1;
  const auto in_batches = [&](std::size_t batch) {
    ChannelRanges ranges(kChannels);
    for (std::size_t first = 0; first < kRows; first += batch) {
      const std::size_t count = std::min(batch, kRows - first);
      ranges.add(rows.data() + first * kChannels, kChannels, std::span(massive).subspan(first, count));
    }
    return finished(ranges);
  };
  const ChannelStatistics whole = test::with_threads(1, [&] { return in_batches(kRows); });
  for (const std::size_t batch : {1, 3, 16}) {
    const ChannelStatistics parts = test::with_threads(3, [&] { return in_batches(batch); });
    CHECK(parts.min == whole.min);
    CHECK(parts.max == whole.max);
    CHECK(parts.ordinary_absmax == whole.ordinary_absmax);
    for (std::size_t c = 0; c < kChannels; ++c) {
      CHECK(parts.mean[c] == doctest::Approx(whole.mean[c]).epsilon(1e-6));
      CHECK(parts.mean_square[c] == doctest::Approx(whole.mean_square[c]).epsilon(1e-6));
    }
  }
}

TEST_CASE("massive is more than 100 and at least 1000 times the median") {
  CHECK(is_massive(1001, 1));
  CHECK(is_massive(1000, 1));
  CHECK(!is_massive(999, 1));
  CHECK(!is_massive(100, 0.001));
  CHECK(is_massive(100.1, 0.001));
  CHECK(!is_massive(23855, 100));
}

TEST_CASE("massive values are found with row and channel, and their rows flagged") {
  constexpr std::size_t kRows = 30;
  constexpr std::size_t kChannels = 16;
  std::vector<float> rows = random_rows(kRows * kChannels);
  rows[0 * kChannels + 3] = -5000;
  rows[17 * kChannels + 9] = 2000;
  rows[17 * kChannels + 3] = 1500;
  OutputMagnitudes output(kChannels);
  std::vector<std::uint8_t> flags(kRows);
  // Two batches, the second of which begins at row 10.
  output.add(rows.data(), 0, std::span(flags).first(10));
  output.add(rows.data() + 10 * kChannels, 10, std::span(flags).subspan(10));
  std::vector<std::uint8_t> expected(kRows);
  expected[0] = expected[17] = 1;
  CHECK(flags == expected);
  const std::vector<Peak> massive = output.massive();
  REQUIRE(massive.size() == 3);
  CHECK(massive[0].row == 0);
  CHECK(massive[0].channel == 3);
  CHECK(massive[0].value == -5000);
  CHECK(massive[1].row == 17);
  CHECK(massive[2].row == 17);
  CHECK(output.top(1).front().value == -5000);
  std::vector<float> magnitudes = rows;
  for (float& value : magnitudes) value = std::abs(value);
  std::ranges::sort(magnitudes);
  CHECK(output.median() == doctest::Approx(magnitudes[magnitudes.size() / 2]).epsilon(0.02));
}

}  // namespace
}  // namespace ballast::calib
