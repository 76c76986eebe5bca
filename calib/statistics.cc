#include "ballast/statistics.h"

#include <algorithm>
#include <cmath>

namespace ballast {

namespace {

double median_of(std::vector<float> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::vector<float> absmax_of(const ChannelStatistics& channels) {
  std::vector<float> absmax(channels.min.size());
  for (std::size_t c = 0; c < absmax.size(); ++c) absmax[c] = channels.absmax(c);
  return absmax;
}

}  // namespace

float ChannelStatistics::absmax(std::size_t channel) const {
  return std::max(std::abs(min[channel]), std::abs(max[channel]));
}

double LinearInputStatistics::absmax_ratio() const {
  const std::vector<float> absmax = absmax_of(channels);
  const double median = median_of(absmax);
  return median > 0 ? *std::ranges::max_element(absmax) / median : 0;
}

std::vector<std::size_t> LinearInputStatistics::outlier_channels() const {
  const double threshold = kOutlierRatio * median_of(channels.ordinary_absmax);
  std::vector<std::size_t> found;
  for (std::size_t c = 0; c < channels.ordinary_absmax.size(); ++c) {
    if (threshold > 0 && channels.ordinary_absmax[c] >= threshold) found.push_back(c);
  }
  return found;
}

double ExpertStatistics::entropy() const {
  double sum = 0;
  for (const std::uint64_t count : tokens) sum += static_cast<double>(count);
  double bits = 0;
  for (const std::uint64_t count : tokens) {
    const double share = static_cast<double>(count) / sum;
    if (count > 0) bits -= share * std::log2(share);
  }
  return bits;
}

std::vector<std::size_t> ExpertStatistics::starved() const {
  std::vector<std::size_t> found;
  for (std::size_t e = 0; e < tokens.size(); ++e) {
    if (tokens[e] < columns) found.push_back(e);
  }
  return found;
}

}  // namespace ballast
