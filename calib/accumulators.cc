#include "calib/accumulators.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "ballast/statistics.h"
#include "kernels/statistics.h"

namespace ballast::calib {

namespace {

// The median of a batch approximates the median of all rows, within a factor of two, until that is known.
constexpr double kCandidateRatio = kMassiveRatio / 2;

bool falling(const Peak& a, const Peak& b) {
  const float left = std::abs(a.value);
  const float right = std::abs(b.value);
  if (left != right) return left > right;
  return a.row != b.row ? a.row < b.row : a.channel < b.channel;
}

void add_magnitudes(const float* values, std::size_t count, std::vector<std::uint64_t>& histogram) {
#pragma omp parallel
  {
    std::vector<std::uint64_t> mine(kernels::kMagnitudeBuckets);
    constexpr std::size_t kChunk = 1 << 14;
#pragma omp for schedule(static)
    for (std::size_t begin = 0; begin < count; begin += kChunk) {
      kernels::accumulate_magnitudes(values + begin, std::min(kChunk, count - begin), mine);
    }
#pragma omp critical(ballast_magnitudes)
    for (std::size_t i = 0; i < mine.size(); ++i) histogram[i] += mine[i];
  }
}

std::vector<std::vector<Peak>> gather_peaks(Ranks& ranks, const std::vector<Peak>& mine) {
  static_assert(std::is_trivially_copyable_v<Peak>);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(mine));
  std::vector<std::vector<Peak>> all;
  for (const std::string& part : ranks.gather({reinterpret_cast<const char*>(bytes.data()), bytes.size()})) {
    std::vector<Peak>& peaks = all.emplace_back(part.size() / sizeof(Peak));
    if (!part.empty()) std::memcpy(peaks.data(), part.data(), part.size());
  }
  return all;
}

}  // namespace

ChannelRanges::Kind::Kind(std::size_t channels)
    : min(channels, std::numeric_limits<float>::infinity()), max(channels, -std::numeric_limits<float>::infinity()) {}

ChannelRanges::ChannelRanges(std::size_t channels)
    : channels_(channels), ordinary_(channels), massive_(channels), sums_(4 * channels, jobs::SumOrder::kFixed) {}

void ChannelRanges::add(const float* rows, std::size_t stride, RowFlags massive) {
  for (std::size_t begin = 0; begin < massive.size();) {
    std::size_t end = begin + 1;
    while (end < massive.size() && massive[end] == massive[begin]) ++end;
    Kind& kind = massive[begin] != 0 ? massive_ : ordinary_;
    double* sums = sums_.shard().data() + (massive[begin] != 0 ? 2 * channels_ : 0);
    kind.rows += end - begin;
    kernels::accumulate_columns(
        rows + begin * stride, end - begin, channels_, stride,
        {.min = kind.min.data(), .max = kind.max.data(), .sum = sums, .sum_squares = sums + channels_});
    begin = end;
  }
}

ChannelStatistics ChannelRanges::finish(Ranks& ranks) {
  for (Kind* kind : {&ordinary_, &massive_}) {
    ranks.sum(std::span(&kind->rows, 1));
    ranks.minimum(kind->min);
    ranks.maximum(kind->max);
  }
  const std::vector<double> sums = sums_.finish(ranks);
  const auto rows = static_cast<double>(ordinary_.rows + massive_.rows);
  if (rows == 0) {  // an expert without tokens
    const std::vector<float> zeros(channels_);
    return {.min = zeros, .max = zeros, .mean = zeros, .mean_square = zeros, .ordinary_absmax = zeros};
  }
  ChannelStatistics statistics;
  for (std::size_t c = 0; c < channels_; ++c) {
    const double sum = sums[c] + sums[2 * channels_ + c];
    const double sum_squares = sums[channels_ + c] + sums[3 * channels_ + c];
    statistics.min.push_back(std::min(ordinary_.min[c], massive_.min[c]));
    statistics.max.push_back(std::max(ordinary_.max[c], massive_.max[c]));
    statistics.mean.push_back(static_cast<float>(sum / rows));
    statistics.mean_square.push_back(static_cast<float>(sum_squares / rows));
    statistics.ordinary_absmax.push_back(
        ordinary_.rows == 0 ? 0.0F : std::max(std::abs(ordinary_.min[c]), std::abs(ordinary_.max[c])));
  }
  return statistics;
}

ChannelStatistics merged(const ChannelStatistics& channels, std::uint64_t tokens, const ChannelStatistics& other,
                         std::uint64_t other_tokens) {
  if (other_tokens == 0) return channels;
  if (tokens == 0) return other;
  const double share = static_cast<double>(tokens) / static_cast<double>(tokens + other_tokens);
  const auto mean = [share](float a, float b) {
    return static_cast<float>(share * double{a} + (1 - share) * double{b});
  };
  ChannelStatistics result = channels;
  for (std::size_t c = 0; c < channels.min.size(); ++c) {
    result.min[c] = std::min(channels.min[c], other.min[c]);
    result.max[c] = std::max(channels.max[c], other.max[c]);
    result.mean[c] = mean(channels.mean[c], other.mean[c]);
    result.mean_square[c] = mean(channels.mean_square[c], other.mean_square[c]);
    result.ordinary_absmax[c] = std::max(channels.ordinary_absmax[c], other.ordinary_absmax[c]);
  }
  return result;
}

OutputMagnitudes::OutputMagnitudes(std::size_t channels)
    : channels_(channels), histogram_(kernels::kMagnitudeBuckets), channel_peaks_(channels) {
  for (std::size_t c = 0; c < channels; ++c) channel_peaks_[c].channel = c;
}

void OutputMagnitudes::add(const float* rows, std::size_t first_row, std::span<std::uint8_t> massive) {
  std::vector<std::uint64_t> batch(kernels::kMagnitudeBuckets);
  add_magnitudes(rows, massive.size() * channels_, batch);
  for (std::size_t i = 0; i < batch.size(); ++i) histogram_[i] += batch[i];
  const double median = kernels::magnitude_quantile(batch, 0.5);

#pragma omp parallel for
  for (std::size_t r = 0; r < massive.size(); ++r) {
    const float* row = rows + r * channels_;
    float largest = 0;
    for (std::size_t c = 0; c < channels_; ++c) largest = std::max(largest, std::abs(row[c]));
    massive[r] = is_massive(largest, median) ? 1 : 0;
  }
  for (std::size_t r = 0; r < massive.size(); ++r) {
    const float* row = rows + r * channels_;
    for (std::size_t c = 0; c < channels_; ++c) {
      const float magnitude = std::abs(row[c]);
      if (magnitude > std::abs(channel_peaks_[c].value)) channel_peaks_[c] = {row[c], first_row + r, c};
      if (magnitude > kMassiveMagnitude && magnitude >= kCandidateRatio * median) {
        candidates_.push_back({row[c], first_row + r, c});
      }
    }
  }
}

// Ranks hold ascending rows, so the first of equal peaks stays first.
void OutputMagnitudes::merge(Ranks& ranks) {
  ranks.sum(std::span(histogram_));
  std::vector<Peak> peaks;
  for (const std::vector<Peak>& others : gather_peaks(ranks, channel_peaks_)) {
    if (peaks.empty()) peaks = others;
    for (std::size_t c = 0; c < channels_; ++c) {
      if (std::abs(others[c].value) > std::abs(peaks[c].value)) peaks[c] = others[c];
    }
  }
  channel_peaks_ = std::move(peaks);
  std::vector<Peak> candidates;
  for (const std::vector<Peak>& others : gather_peaks(ranks, candidates_)) {
    candidates.insert(candidates.end(), others.begin(), others.end());
  }
  candidates_ = std::move(candidates);
}

double OutputMagnitudes::median() const {
  return kernels::magnitude_quantile(histogram_, 0.5);
}

std::vector<Peak> OutputMagnitudes::top(std::size_t count) const {
  std::vector<Peak> peaks = channel_peaks_;
  const auto middle = peaks.begin() + static_cast<std::ptrdiff_t>(std::min(count, peaks.size()));
  std::ranges::partial_sort(peaks, middle, falling);
  peaks.erase(middle, peaks.end());
  return peaks;
}

std::vector<Peak> OutputMagnitudes::massive() const {
  const double threshold = median();
  std::vector<Peak> found;
  std::ranges::copy_if(candidates_, std::back_inserter(found),
                       [&](const Peak& peak) { return is_massive(std::abs(peak.value), threshold); });
  return found;
}

}  // namespace ballast::calib
