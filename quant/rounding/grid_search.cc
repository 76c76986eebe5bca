#include "quant/rounding/grid_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace ballast::quant {

namespace {

constexpr int kMostRefinements = 3;

// Ranges are tried from slightly above the whole one down to this share of it. Cutting saves less the more codes there
// are.
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

/// The best grid so far.
class Best {
 public:
  Best(const WeightedGroup& group, const QuantParams& start, const QuantRange& range)
      : group_(group), range_(range), grid_(start), error_(weighted_error(group, start, range)) {}

  bool improve(const QuantParams& grid) {
    if (!(std::abs(grid.scale) > kSmallestScale)) return false;
    const float error = weighted_error(group_, grid, range_);
    if (!(error < error_)) return false;
    grid_ = grid;
    error_ = error;
    return true;
  }

  /// Least squares, with the zero where it is and one to either side, until nothing improves.
  void refine(bool move_zero, bool positive) {
    for (int i = 0; i < kMostRefinements; ++i) {
      const QuantParams from = grid_;
      bool better = false;
      for (const int shift : {0, -1, 1}) {
        QuantParams grid = {from.scale, from.zero_point + shift};
        if (shift != 0 && (!move_zero || grid.zero_point < 0 || grid.zero_point > range_.qmax)) continue;
        grid.scale = fitted_scale(group_, grid, range_);
        if (!positive || grid.scale > 0) better |= improve(grid);
      }
      if (!better) return;
    }
  }

  const QuantParams& grid() const { return grid_; }

 private:
  const WeightedGroup& group_;
  const QuantRange& range_;
  QuantParams grid_;
  float error_;
};

}  // namespace

float weighted_error(const WeightedGroup& group, const QuantParams& grid, const QuantRange& range) {
  const float scale = std::abs(grid.scale) > kSmallestScale ? grid.scale : 0;
  const Stepper step(scale == 0 ? QuantParams{1, grid.zero_point} : grid, range);
  const float* values = group.values.data();
  const float* weights = group.weights.data();
  float error = 0;
#pragma omp simd reduction(+ : error)
  for (std::size_t i = 0; i < group.values.size(); ++i) {
    const float difference = values[i] - step(values[i]) * scale;
    error += weights[i] * difference * difference;
  }
  return error;
}

QuantParams search_grid(const WeightedGroup& group, const QuantParams& start, const WeightFormat& format) {
  if (!(std::abs(start.scale) > kSmallestScale)) return start;
  const QuantRange range(format);
  Best best(group, start, range);
  const auto tried = shares(format.bits);
  if (format.symmetric) {
    // The codes reach one step further down than up: a negative scale gives that step to the positive side.
    const bool both_signs = format.bits < 8 && format.scale_bits == 16;
    for (const float share : tried) {
      const float scale = std::abs(start.scale) * share;
      best.improve({scale, range.symmetric_zero_point});
      if (both_signs) best.improve({-scale, range.symmetric_zero_point});
    }
    // Values that are few multiples of a power of two, as those of MXFP4 are, lose nothing on a grid of one.
    const float power = std::exp2(std::ceil(std::log2(std::abs(start.scale))));
    for (const float scale : {power, 2 * power}) best.improve({scale, range.symmetric_zero_point});
    best.refine(false, format.scale_bits == 8);
    return best.grid();
  }
  const float low = start.scale * static_cast<float>(-start.zero_point);
  const float high = start.scale * static_cast<float>(range.qmax - start.zero_point);
  for (const float low_share : tried) {
    for (const float high_share : tried) {
      const float scale = (high * high_share - low * low_share) / static_cast<float>(range.qmax);
      if (!(scale > kSmallestScale)) continue;
      const auto zero = static_cast<int>(std::nearbyint(-low * low_share / scale));
      best.improve({scale, std::clamp(zero, 0, range.qmax)});
      if (high == 0) break;  // the other end's share changes nothing
    }
    if (low == 0) break;
  }
  best.refine(true, true);
  return best.grid();
}

}  // namespace ballast::quant
