#include "quant/quantize/outlier_channels.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ballast::quant {

namespace {

// Returns the channels with the highest scores, ascending.
std::vector<std::int32_t> highest(const std::vector<float>& scores, std::size_t count) {
  std::vector<std::int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::int32_t channel) { return scores[static_cast<std::size_t>(channel)]; });
  order.resize(std::min(count, order.size()));
  std::ranges::sort(order);
  return order;
}

// Returns the cost of a channel that is not left out: with INT8 activations its magnitude widens the grid of all
// others; if only weights are rounded, its energy carries its column's rounding error into the output.
std::vector<float> scores(const ChannelStatistics& channels, ActivationType activations) {
  if (activations != ActivationType::kInt8) return channels.mean_square;
  std::vector<float> absmax(channels.min.size());
  for (std::size_t c = 0; c < absmax.size(); ++c) absmax[c] = channels.absmax(c);
  return absmax;
}

}  // namespace

std::vector<std::int32_t> outlier_channels(const ChannelStatistics& channels, double fraction,
                                           ActivationType activations) {
  const auto count = static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(channels.min.size())));
  return highest(scores(channels, activations), count);
}

bool keeps_outliers(const WeightFormat& format, ActivationType activations) {
  return format.is_ballast_format() && (activations == ActivationType::kInt8 || format.bits < 8);
}

bool splits_outliers(const Recipe& recipe) {
  if (recipe.outlier_fraction == 0 || recipe.target_bytes > 0) return false;
  const auto keeps = [&](const WeightFormat& format) { return keeps_outliers(format, recipe.activations); };
  return keeps(recipe.linears) || keeps(recipe.embedding) || keeps(recipe.head) ||
         std::ranges::any_of(recipe.overrides, keeps, &FormatOverride::format);
}

}  // namespace ballast::quant
