#include "quant/rounding/grids/block_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace ballast::quant {

namespace {

constexpr int kMostFits = 4;

// Ranges are tried from slightly above the whole range down to this share of it: clipping saves more with fewer codes.
constexpr float kWidestRange = 1.05F;
constexpr int kRanges = 14;
float narrowest_range(int codes) {
  if (codes <= 8) return 0.4F;
  if (codes <= 16) return 0.5F;
  return codes <= 64 ? 0.7F : 0.9F;
}

}  // namespace

void LeastSquares::add(const WeightedGroup& group, const QuantParams& grid, const QuantRange& range,
                       double scale_factor, double minimum_factor) {
  std::array<float, GridSteps::kMostValues> steps;
  GridSteps(grid, range).count(group.values, steps.data());
  const float* values = group.values.data();
  const float* weights = group.weights.data();
  float w = 0;
  float x = 0;
  float xx = 0;
  float xv = 0;
  float v = 0;
#pragma omp simd reduction(+ : w, x, xx, xv, v)
  for (std::size_t i = 0; i < group.values.size(); ++i) {
    w += weights[i];
    x += weights[i] * steps[i];
    xx += weights[i] * steps[i] * steps[i];
    xv += weights[i] * steps[i] * values[i];
    v += weights[i] * values[i];
  }
  minimums_squared += double{w} * minimum_factor * minimum_factor;
  products += double{x} * scale_factor * minimum_factor;
  codes_squared += double{xx} * scale_factor * scale_factor;
  codes_values += double{xv} * scale_factor;
  minimums_values += double{v} * minimum_factor;
}

QuantParams LeastSquares::with_minimum() const {
  const double determinant = minimums_squared * codes_squared - products * products;
  if (!(determinant > 1e-12 * minimums_squared * codes_squared)) return {};
  const double scale = (minimums_squared * codes_values - products * minimums_values) / determinant;
  return {static_cast<float>(scale), 0, minimum_beside(scale)};
}

float LeastSquares::minimum_beside(double scale) const {
  if (!(minimums_squared > 0)) return 0;
  return static_cast<float>((products * scale - minimums_values) / minimums_squared);
}

double LeastSquares::scale_alone() const {
  return codes_squared > 0 ? codes_values / codes_squared : 0;
}

BlockSearch::BlockSearch(const QuantRange& range, Minimums minimums) : range_(range), minimums_(minimums) {}

QuantParams BlockSearch::range_grid(const WeightedGroup& group) const {
  float low = 0;
  float high = 0;
  for (std::size_t i = 0; i < group.values.size(); ++i) {
    low = std::min(low, group.values[i]);
    high = std::max(high, group.values[i]);
  }
  if (minimums_ != Minimums::kNone) return {(high - low) / static_cast<float>(range_.qmax), 0, -low};
  // The codes reach further down than up: the largest magnitude goes there.
  const float extreme = high > -low ? high : low;
  return {extreme / static_cast<float>(range_.qmin - range_.symmetric_zero_point), range_.symmetric_zero_point};
}

QuantParams BlockSearch::searched_grid(const WeightedGroup& group) const {
  const QuantParams start = range_grid(group);
  if (!(std::abs(start.scale) > kSmallestScale)) return start;
  BestGrid best(group, start, range_);
  const float smallest = narrowest_range(range_.count);
  const auto share = [&](int i) {
    return kWidestRange - (kWidestRange - smallest) * static_cast<float>(i) / static_cast<float>(kRanges - 1);
  };
  if (minimums_ == Minimums::kNone) {
    const float scale = std::abs(start.scale) * static_cast<float>(range_.symmetric_zero_point - range_.qmin) /
                        static_cast<float>(range_.qmax - range_.symmetric_zero_point);
    for (int i = 0; i < kRanges; ++i) {
      best.add({scale * share(i), range_.symmetric_zero_point});
      best.add({-scale * share(i), range_.symmetric_zero_point});
    }
    best.settle();
    return refined(group, best);
  }
  const float high = start.scale * static_cast<float>(range_.qmax) - start.minimum;
  for (int l = 0; l < kRanges; ++l) {
    const float minimum = start.minimum * share(l);
    for (int h = 0; h < kRanges; ++h) {
      best.add({(high * share(h) + minimum) / static_cast<float>(range_.qmax), 0, minimum});
      if (high == 0) break;  // the other end's share changes nothing
    }
    if (start.minimum == 0) break;
  }
  best.settle();
  return refined(group, best);
}

QuantParams BlockSearch::fitted(const WeightedGroup& group, const QuantParams& grid) const {
  LeastSquares sums;
  sums.add(group, grid, range_, 1, 1);
  if (minimums_ == Minimums::kNone) return {static_cast<float>(sums.scale_alone()), range_.symmetric_zero_point};
  const QuantParams free = sums.with_minimum();
  const bool holds = free.scale > 0 && (minimums_ == Minimums::kAny || free.minimum >= 0);
  return holds ? free : QuantParams{static_cast<float>(sums.scale_alone()), 0, 0};
}

QuantParams BlockSearch::refined(const WeightedGroup& group, BestGrid& best) const {
  for (int i = 0; i < kMostFits; ++i) {
    best.add(fitted(group, best.grid()));
    if (!best.settle()) break;
  }
  return best.grid();
}

}  // namespace ballast::quant
