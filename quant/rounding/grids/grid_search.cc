#include "quant/rounding/grids/grid_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "kernels/grid_errors.h"

namespace ballast::quant {

namespace {

constexpr int kMostRefinements = 3;

// Ranges are tried from slightly above the whole range down to this share of it. Clipping saves less with more codes.
constexpr float kLargestShare = 1.05F;
constexpr std::size_t kShares = 12;
constexpr float smallest_share(int bits) {
  if (bits == 4) return 0.5F;
  return bits == 8 ? 0.9F : 0.7F;
}

std::array<float, kShares> shares(int bits) {
  std::array<float, kShares> result{};
  const float step = (kLargestShare - smallest_share(bits)) / static_cast<float>(kShares - 1);
  for (std::size_t i = 0; i < kShares; ++i) result[i] = kLargestShare - step * static_cast<float>(i);
  return result;
}

// Number of steps from the zero to the value nearest to `value`.
struct Stepper {
  Stepper(const QuantParams& grid, const QuantRange& range)
      : inverse(1 / grid.scale),
        low(static_cast<float>(range.qmin - grid.zero_point)),
        high(static_cast<float>(range.qmax - grid.zero_point)) {}

  float operator()(float value) const {
    const float steps = value * inverse;
    const float least = steps < low ? low : steps;
    const float most = least > high ? high : least;
    return (most + kRounder) - kRounder;
  }

  float inverse;
  float low;
  float high;
};

/// The scale with the least error for the codes that `grid` gives; 0 when all of them are zeros.
float fitted_scale(const WeightedGroup& group, const QuantParams& grid, const QuantRange& range) {
  const Stepper step(grid, range);
  const float* values = group.values.data();
  const float* weights = group.weights.data();
  float dot = 0;
  float squares = 0;
#pragma omp simd reduction(+ : dot, squares)
  for (std::size_t i = 0; i < group.values.size(); ++i) {
    const float steps = step(values[i]);
    dot += weights[i] * steps * values[i];
    squares += weights[i] * steps * steps;
  }
  return squares > 0 ? dot / squares : 0;
}

/// Least squares, with the zero where it is and one to either side, until nothing improves.
void refine(BestGrid& best, const WeightedGroup& group, const QuantRange& range, bool move_zero, bool positive) {
  for (int i = 0; i < kMostRefinements; ++i) {
    const QuantParams from = best.grid();
    for (const int shift : {0, -1, 1}) {
      QuantParams grid = {from.scale, from.zero_point + shift};
      if (shift != 0 && (!move_zero || grid.zero_point < 0 || grid.zero_point > range.qmax)) continue;
      grid.scale = fitted_scale(group, grid, range);
      if (!positive || grid.scale > 0) best.add(grid);
    }
    if (!best.settle()) return;
  }
}

kernels::StepGrid step_grid(const QuantParams& grid, const QuantRange& range) {
  const bool has_steps = std::abs(grid.scale) > kSmallestScale;
  return {.scale = has_steps ? grid.scale : 0,
          .inverse = has_steps ? 1 / grid.scale : 0,
          .minimum = grid.minimum,
          .low = static_cast<float>(range.qmin - grid.zero_point),
          .high = static_cast<float>(range.qmax - grid.zero_point)};
}

kernels::NearestSteps nearest_steps(const QuantRange& range) {
  if (range.nearest == nullptr) return {};
  return {range.nearest->steps.data(), -static_cast<float>(range.symmetric_zero_point)};
}

}  // namespace

float lowest_value(const WeightedGroup& group) {
  float low = 0;
  for (const float value : group.values) low = std::min(low, value);
  return low;
}

GridSteps::GridSteps(const QuantParams& grid, const QuantRange& range)
    : inverse_(std::abs(grid.scale) > kSmallestScale ? 1 / grid.scale : 0),
      minimum_(grid.minimum),
      zero_(grid.zero_point),
      low_(static_cast<float>(range.qmin - grid.zero_point)),
      high_(static_cast<float>(range.qmax - grid.zero_point)),
      nearest_(range.nearest) {}

void GridSteps::count(std::span<const float> values, float* steps) const {
#pragma omp simd
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float exact = (values[i] + minimum_) * inverse_;
    const float least = exact < low_ ? low_ : exact;
    steps[i] = least > high_ ? high_ : least;
  }
  if (nearest_ == nullptr) {
#pragma omp simd
    for (std::size_t i = 0; i < values.size(); ++i) steps[i] = (steps[i] + kRounder) - kRounder;
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    steps[i] = nearest_->steps[static_cast<std::size_t>(2 * (steps[i] + static_cast<float>(zero_)))];
  }
}

float weighted_error(const WeightedGroup& group, const QuantParams& grid, const QuantRange& range) {
  const kernels::StepGrid steps = step_grid(grid, range);
  float error = 0;
  kernels::grid_errors(group.values, group.weights, {&steps, 1}, {&error, 1}, nearest_steps(range));
  return error;
}

void BestGrid::add(const QuantParams& grid) {
  if (!(std::abs(grid.scale) > kSmallestScale)) return;
  if (count_ == kMost) improved_ = settle();
  candidates_[count_++] = grid;
}

bool BestGrid::settle() {
  std::array<float, kMost> errors;
  std::array<kernels::StepGrid, kMost> steps;
  for (std::size_t i = 0; i < count_; ++i) steps[i] = step_grid(candidates_[i], range_);
  kernels::grid_errors(group_.values, group_.weights, std::span(steps).first(count_), std::span(errors).first(count_),
                       nearest_steps(range_));
  bool improved = std::exchange(improved_, false);
  const std::size_t count = std::exchange(count_, 0);
  for (std::size_t i = 0; i < count; ++i) {
    if (!(errors[i] < error_)) continue;
    grid_ = candidates_[i];
    error_ = errors[i];
    improved = true;
  }
  return improved;
}

QuantParams search_grid(const WeightedGroup& group, const QuantParams& start, const WeightFormat& format) {
  if (!(std::abs(start.scale) > kSmallestScale)) return start;
  const QuantRange range(format);
  BestGrid best(group, start, range);
  const auto tried = shares(format.bits);
  if (format.symmetric) {
    // The codes reach one step further down than up: a negative scale gives that step to the positive side.
    const bool both_signs = format.bits < 8 && format.scale_bits == 16;
    for (const float share : tried) {
      const float scale = std::abs(start.scale) * share;
      best.add({scale, range.symmetric_zero_point});
      if (both_signs) best.add({-scale, range.symmetric_zero_point});
    }
    // Values that are few multiples of a power of two, as those of MXFP4 are, lose nothing on a grid of one.
    const float power = std::exp2(std::ceil(std::log2(std::abs(start.scale))));
    for (const float scale : {power, 2 * power}) best.add({scale, range.symmetric_zero_point});
    best.settle();
    refine(best, group, range, false, format.scale_bits == 8);
    return best.grid();
  }
  const float low = start.scale * static_cast<float>(-start.zero_point);
  const float high = start.scale * static_cast<float>(range.qmax - start.zero_point);
  for (const float low_share : tried) {
    for (const float high_share : tried) {
      const float scale = (high * high_share - low * low_share) / static_cast<float>(range.qmax);
      if (!(scale > kSmallestScale)) continue;
      const auto zero = static_cast<int>(std::nearbyint(-low * low_share / scale));
      best.add({scale, std::clamp(zero, 0, range.qmax)});
      if (high == 0) break;  // the other end's share changes nothing
    }
    if (low == 0) break;
  }
  best.settle();
  refine(best, group, range, true, true);
  return best.grid();
}

}  // namespace ballast::quant
