#include "quant/rounding/scales/lattice_scales.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "quant/rounding/grids/half_float.h"

namespace ballast::quant {

namespace {

using formats::kLargestIqFactor;

constexpr std::size_t kColumnsOfScale = 256;
constexpr int kMostScaleFits = 3;

// Points are fewer than the combinations of their elements' values, so the best scale of a lattice may be another than
// that of the values on their own.
constexpr std::array kScaleShares = {0.88F, 0.94F, 1.06F, 1.12F};

}  // namespace

LatticeScales::LatticeScales(DType dtype, GridMethod method)
    : lattice_(*formats::find_iq_lattice(dtype)), search_(*find_lattice_search(dtype)), method_(method) {}

void LatticeScales::store(std::span<const WeightedGroup> groups, RowGrids& grids) const {
  const std::size_t together = kColumnsOfScale / lattice_.group_size;
  const std::size_t blocks = groups.size() / together;
  grids.block_scales.resize(blocks);
  grids.block_minimums.clear();
  grids.factors.resize(groups.size());
  grids.minimum_factors.clear();
  std::vector<Fit> wanted(together);
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t first = b * together;
    const auto of_block = groups.subspan(first, together);
    for (std::size_t i = 0; i < together; ++i) {
      const float scale = std::abs(grids.groups[first + i].scale);
      wanted[i] = fit(of_block[i], scale, {});
      if (method_ == GridMethod::kSearch) improve(of_block[i], wanted[i]);
    }
    const Stored stored = best_stored(of_block, wanted);
    grids.block_scales[b] = half_bits(stored.scale, DType::kF16);
    for (std::size_t i = 0; i < together; ++i) {
      grids.groups[first + i] = {group_scale(stored.scale, stored.factors[i]), lattice_.middle()};
      grids.factors[first + i] = static_cast<std::int8_t>(stored.factors[i]);
    }
  }
}

LatticeScales::Fit LatticeScales::fit(const WeightedGroup& group, float scale, const Fit& known) const {
  constexpr float kNear = 1.15F;  // a ratio of scales whose nearest points are nearly always neighbors
  Fit fit;
  if (!(scale > kSmallestScale)) {
    for (std::size_t i = 0; i < group.values.size(); ++i) {
      fit.error += group.weights[i] * group.values[i] * group.values[i];
    }
    return fit;
  }
  fit.scale = scale;
  fit.points = known.points;
  const bool is_near = scale < kNear * known.scale && known.scale < kNear * scale;
  LatticeSearch::Steps steps;
  for (std::size_t begin = 0; begin < group.values.size(); begin += kCell) {
    const float* values = group.values.data() + begin;
    const float* weights = group.weights.data() + begin;
    LatticeSearch::Points& points = fit.points[begin / kCell];
    fit.error += is_near ? search_.nearest_around(values, weights, scale, steps, points)
                         : search_.nearest(values, weights, scale, steps, points);
    for (std::size_t i = 0; i < kCell; ++i) {
      const double weighted = double{weights[i]} * double{steps[i]};
      fit.steps_values += weighted * double{values[i]};
      fit.steps_squared += weighted * double{steps[i]};
    }
  }
  return fit;
}

void LatticeScales::improve(const WeightedGroup& group, Fit& best) const {
  if (best.scale == 0) return;
  const auto compare = [&](float scale) {
    const Fit other = fit(group, scale, best);
    const bool less = other.error < best.error;
    if (less) best = other;
    return less;
  };
  const float start = best.scale;
  for (const float share : kScaleShares) compare(start * share);
  for (int i = 0; i < kMostScaleFits; ++i) {
    const auto fitted = static_cast<float>(best.steps_values / std::max(best.steps_squared, 1e-300));
    if (!(fitted > kSmallestScale) || !compare(fitted)) break;
  }
}

LatticeScales::Stored LatticeScales::with_scale(std::span<const WeightedGroup> groups, std::span<const Fit> wanted,
                                                double scale) const {
  Stored stored{.scale = as_half(static_cast<float>(scale), DType::kF16), .factors = {}, .fits = {}};
  const float unit = stored.scale * lattice_.unit;
  const int reach = method_ == GridMethod::kSearch ? 1 : 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const float ratio = unit > 0 ? std::min(wanted[g].scale / unit, 64.0F) : 0;
    const int nearest = std::clamp(2 * static_cast<int>(std::floor(ratio / 2)) + 1, 1, kLargestIqFactor);
    int best = nearest;
    Fit least = fit(groups[g], group_scale(stored.scale, nearest), wanted[g]);
    for (int step = -reach; step <= reach; ++step) {
      const int factor = nearest + 2 * step;
      if (step == 0 || factor < 1 || factor > kLargestIqFactor) continue;
      const Fit other = fit(groups[g], group_scale(stored.scale, factor), wanted[g]);
      if (!(other.error < least.error)) continue;
      least = other;
      best = factor;
    }
    stored.factors.push_back(best);
    stored.fits.push_back(least);
    stored.error += least.error;
  }
  return stored;
}

LatticeScales::Stored LatticeScales::best_stored(std::span<const WeightedGroup> groups,
                                                 std::span<const Fit> wanted) const {
  const double largest = std::ranges::max(wanted, {}, &Fit::scale).scale;
  Stored best = with_scale(groups, wanted, largest / (double{lattice_.unit} * kLargestIqFactor));
  if (method_ == GridMethod::kRange) return best;
  for (int i = 0; i < kMostScaleFits; ++i) {
    double values = 0;
    double squared = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const double factor = double{lattice_.unit} * best.factors[g];
      values += factor * best.fits[g].steps_values;
      squared += factor * factor * best.fits[g].steps_squared;
    }
    if (!(squared > 0)) break;
    Stored next = with_scale(groups, wanted, values / squared);
    if (!(next.error < best.error)) break;
    best = std::move(next);
  }
  return best;
}

}  // namespace ballast::quant
