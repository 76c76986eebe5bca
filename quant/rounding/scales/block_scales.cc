#include "quant/rounding/scales/block_scales.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "quant/rounding/grids/half_float.h"

namespace ballast::quant {

namespace {

constexpr int kMostRefits = 3;

std::uint16_t f16_bits(float value) {
  return half_bits(value, DType::kF16);
}

float as_f16(double value) {
  return as_half(static_cast<float>(value), DType::kF16);
}

}  // namespace

BlockScales::BlockScales(DType dtype, GridMethod method)
    : type_(block_type(dtype)), range_(block_format(dtype)), method_(method) {}

void BlockScales::store(std::span<const WeightedGroup> groups, RowGrids& grids) const {
  if (type_.groups_of_scale != 0) return store_shared_scales(groups, grids);
  grids.block_scales.resize(groups.size());
  grids.block_minimums.resize(type_.has_minimums ? groups.size() : 0);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    grids.block_scales[g] = half_bits(grids.groups[g].scale, type_.scale_type);
    if (type_.has_minimums) grids.block_minimums[g] = f16_bits(grids.groups[g].minimum);
  }
}

void BlockScales::store_shared_scales(std::span<const WeightedGroup> groups, RowGrids& grids) const {
  const std::size_t together = type_.groups_of_scale;
  const std::size_t scales = groups.size() / together;
  grids.block_scales.resize(scales);
  grids.block_minimums.resize(type_.has_minimums ? scales : 0);
  grids.factors.resize(groups.size());
  grids.minimum_factors.resize(type_.has_minimums ? groups.size() : 0);
  for (std::size_t s = 0; s < scales; ++s) {
    const std::size_t first = s * together;
    const Stored stored =
        best_stored({groups.subspan(first, together), std::span(grids.groups).subspan(first, together)});
    grids.block_scales[s] = f16_bits(stored.scale);
    if (type_.has_minimums) grids.block_minimums[s] = f16_bits(stored.minimum);
    for (std::size_t i = 0; i < together; ++i) {
      grids.groups[first + i] = grid_of(stored, i);
      grids.factors[first + i] = static_cast<std::int8_t>(stored.factors[i]);
      if (type_.has_minimums) grids.minimum_factors[first + i] = static_cast<std::int8_t>(stored.minimum_factors[i]);
    }
  }
}

QuantParams BlockScales::grid_of(const Stored& stored, std::size_t group) const {
  return {stored.scale * static_cast<float>(stored.factors[group]), type_.zero_point,
          stored.minimum * static_cast<float>(stored.minimum_factors[group])};
}

BlockScales::Stored BlockScales::best_stored(const Shared& shared) const {
  float largest = 0;
  float largest_minimum = 0;
  for (const QuantParams& grid : shared.wanted) {
    if (std::abs(grid.scale) > std::abs(largest)) largest = grid.scale;
    largest_minimum = std::max(largest_minimum, grid.minimum);
  }
  const double minimum =
      type_.has_minimums ? double{largest_minimum} / static_cast<double>(type_.minimum_factor_high) : 0;
  Stored best = with_scales(shared, double{largest} / type_.factor_high, minimum);
  if (type_.factor_low < 0) {
    Stored other = with_scales(shared, double{largest} / type_.factor_low, minimum);
    if (other.error < best.error) best = std::move(other);
  }
  if (method_ == GridMethod::kRange) return best;
  for (int i = 0; i < kMostRefits; ++i) {
    Stored next = refitted(shared, best);
    if (!(next.error < best.error)) break;
    best = std::move(next);
  }
  return best;
}

BlockScales::Stored BlockScales::with_scales(const Shared& shared, double scale, double minimum) const {
  Stored stored{.scale = as_f16(scale), .minimum = as_f16(minimum), .factors = {}, .minimum_factors = {}};
  stored.factors.resize(shared.groups.size());
  stored.minimum_factors.resize(shared.groups.size());
  for (std::size_t g = 0; g < shared.groups.size(); ++g) choose_factors(shared, g, stored);
  return stored;
}

void BlockScales::choose_factors(const Shared& shared, std::size_t group, Stored& stored) const {
  const auto nearest = [](float wanted, float unit, int low, int high) {
    return unit == 0 ? 0 : static_cast<int>(std::clamp(std::nearbyint(wanted / unit), float(low), float(high)));
  };
  const int factor = nearest(shared.wanted[group].scale, stored.scale, type_.factor_low, type_.factor_high);
  const int minimum = nearest(shared.wanted[group].minimum, stored.minimum, 0, type_.minimum_factor_high);
  const int reach = method_ == GridMethod::kSearch ? 1 : 0;
  const int minimum_reach = stored.minimum == 0 ? 0 : reach;
  float least = 0;
  bool any = false;
  for (int f = factor - reach; f <= factor + reach; ++f) {
    if (f < type_.factor_low || f > type_.factor_high) continue;
    for (int m = minimum - minimum_reach; m <= minimum + minimum_reach; ++m) {
      if (m < 0 || m > type_.minimum_factor_high) continue;
      const QuantParams grid = {stored.scale * static_cast<float>(f), type_.zero_point,
                                stored.minimum * static_cast<float>(m)};
      const float error = weighted_error(shared.groups[group], grid, range_);
      if (any && !(error < least)) continue;
      any = true;
      least = error;
      stored.factors[group] = f;
      stored.minimum_factors[group] = m;
    }
  }
  stored.error += least;
}

BlockScales::Stored BlockScales::refitted(const Shared& shared, const Stored& from) const {
  LeastSquares sums;
  for (std::size_t g = 0; g < shared.groups.size(); ++g) {
    sums.add(shared.groups[g], grid_of(from, g), range_, from.factors[g], from.minimum_factors[g]);
  }
  const QuantParams both = type_.has_minimums ? sums.with_minimum() : QuantParams{};
  if (both.scale > 0 && both.minimum > 0) return with_scales(shared, both.scale, both.minimum);
  // Without minimums, or if the codes do not determine it, the minimum is kept, and the scale is fitted to the rest.
  const double scale =
      (sums.codes_values + sums.products * double{from.minimum}) / std::max(sums.codes_squared, 1e-300);
  return with_scales(shared, scale, from.minimum);
}

}  // namespace ballast::quant
