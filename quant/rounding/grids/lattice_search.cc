#include "quant/rounding/grids/lattice_search.h"

#include <algorithm>
#include <cmath>

namespace ballast::quant {

namespace {

constexpr int kMostLatticeRounds = 4;

using Steps = LatticeSearch::Steps;

/// Errors of a cell, and their products with the metric, which are half of the cost's gradient.
struct CellErrors {
  CellErrors(const float* values, const CellMetric& metric, const Steps& steps) {
    for (std::size_t i = 0; i < kCell; ++i) errors[i] = values[i] - steps[i];
    for (std::size_t k = 0; k < kCell; ++k) {
      for (std::size_t i = 0; i < kCell; ++i) products[i] += metric[k * kCell + i] * errors[k];
    }
    for (std::size_t i = 0; i < kCell; ++i) cost += errors[i] * products[i];
  }

  std::array<float, kCell> errors{};
  std::array<float, kCell> products{};
  float cost = 0;
};

/// Changes the sign that reduces the cost most, or two if their number must stay even. Returns whether one does.
bool improve_signs(const CellErrors& errors, const CellMetric& metric, bool even, Steps& steps) {
  // The error of element i grows by twice its step.
  std::array<float, kCell> changes{};
  for (std::size_t i = 0; i < kCell; ++i) {
    changes[i] = 4 * steps[i] * (errors.products[i] + steps[i] * metric[i * kCell + i]);
  }
  float least = -1e-6F * errors.cost;
  std::size_t first = kCell;
  std::size_t second = kCell;
  for (std::size_t i = 0; i < kCell; ++i) {
    if (!even) {
      if (!(changes[i] < least)) continue;
      least = changes[i];
      first = i;
      continue;
    }
    for (std::size_t k = 0; k < i; ++k) {
      const float change = changes[i] + changes[k] + 8 * steps[i] * steps[k] * metric[i * kCell + k];
      if (!(change < least)) continue;
      least = change;
      first = i;
      second = k;
    }
  }
  if (first == kCell) return false;
  steps[first] = -steps[first];
  if (second != kCell) steps[second] = -steps[second];
  return true;
}

}  // namespace

LatticeSearch::LatticeSearch(const formats::IqLattice& lattice)
    : size_(lattice.point_elements),
      count_(lattice.point_count()),
      even_signs_(lattice.even_signs),
      elements_(size_ * count_) {
  for (std::size_t p = 0; p < count_; ++p) {
    for (std::size_t i = 0; i < size_; ++i)
      elements_[i * count_ + p] = static_cast<float>(lattice.points[p * size_ + i]);
  }
}

void LatticeSearch::copy_point(std::size_t point, const float* signs, float* steps) const {
  for (std::size_t i = 0; i < size_; ++i) steps[i] = std::copysign(elements_[i * count_ + point], signs[i]);
}

float LatticeSearch::nearest(const float* values, const float* weights, float scale, Steps& steps) const {
  const float inverse = 1 / scale;
  std::array<float, kCell> products;
  float energy = 0;
  bool odd = false;
  for (std::size_t i = 0; i < kCell; ++i) {
    const float size = std::abs(values[i]) * inverse;
    products[i] = weights[i] * size;
    energy += products[i] * size;
    odd ^= std::signbit(values[i]);
  }
  const bool flip = even_signs_ && odd;
  std::array<float, kCell> signs;
  std::copy_n(values, kCell, signs.begin());
  const auto flip_in = [&](std::size_t part, std::uint32_t point) {
    std::size_t cheapest = 0;
    float least = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      const float cost = products[part * size_ + i] * elements_[i * count_ + point];
      if (i != 0 && !(cost < least)) continue;
      least = cost;
      cheapest = part * size_ + i;
    }
    signs[cheapest] = -signs[cheapest];
  };
  const std::size_t parts = kCell / size_;
  std::array<kernels::LatticePoint, 2> best;
  std::size_t flipped_part = parts;
  for (std::size_t part = 0; part < parts; ++part) {
    best[part] = kernels::nearest_point(points(), weights + part * size_, products.data() + part * size_);
  }
  if (flip) {
    // The part that loses less has the wrong sign.
    kernels::LatticePoint flipped;
    float least = 0;
    for (std::size_t part = 0; part < parts; ++part) {
      const kernels::LatticePoint other =
          kernels::nearest_point_with_flip(points(), weights + part * size_, products.data() + part * size_);
      const float loss = other.cost - best[part].cost;
      if (flipped_part != parts && !(loss < least)) continue;
      least = loss;
      flipped = other;
      flipped_part = part;
    }
    best[flipped_part] = flipped;
    flip_in(flipped_part, flipped.index);
  }
  float cost = energy;
  for (std::size_t part = 0; part < parts; ++part) {
    copy_point(best[part].index, signs.data() + part * size_, steps.data() + part * size_);
    cost += best[part].cost;
  }
  return std::max(0.0F, cost * scale * scale);
}

void LatticeSearch::improve_point(const float* values, const CellMetric& metric, std::size_t part, Steps& steps) const {
  const std::size_t begin = part * size_;
  std::array<float, kCell> signs;
  for (std::size_t i = 0; i < kCell; ++i) signs[i] = std::signbit(steps[i]) ? -1.0F : 1.0F;
  std::array<float, kCell * kCell> own;
  std::array<float, kCell> products{};
  for (std::size_t i = 0; i < size_; ++i) {
    const float* row = metric.data() + (begin + i) * kCell;
    // Elements of another part keep their errors.
    for (std::size_t k = 0; k < kCell; ++k) {
      const bool inside = k >= begin && k < begin + size_;
      products[i] += row[k] * (inside ? values[k] : values[k] - steps[k]);
    }
    products[i] *= signs[begin + i];
    for (std::size_t k = 0; k < size_; ++k) own[i * size_ + k] = row[begin + k] * signs[begin + i] * signs[begin + k];
  }
  const kernels::LatticePoint best = kernels::nearest_point_in_metric(points(), own.data(), products.data());
  copy_point(best.index, signs.data() + begin, steps.data() + begin);
}

float LatticeSearch::nearest_in_metric(const float* values, const CellMetric& metric, Steps& steps) const {
  std::array<float, kCell> weights;
  for (std::size_t i = 0; i < kCell; ++i) weights[i] = metric[i * kCell + i];
  nearest(values, weights.data(), 1, steps);
  float cost = 0;
  for (int round = 0; round < kMostLatticeRounds; ++round) {
    const Steps before = steps;
    for (std::size_t part = 0; part < kCell / size_; ++part) improve_point(values, metric, part, steps);
    const CellErrors errors(values, metric, steps);
    cost = errors.cost;
    if (round != 0 && steps == before) break;
    Steps changed = steps;
    if (round + 1 == kMostLatticeRounds || !improve_signs(errors, metric, even_signs_, changed)) break;
    steps = changed;
  }
  return cost;
}

const LatticeSearch* find_lattice_search(DType dtype) {
  static constexpr std::array kTypes = {DType::kIQ2_XXS, DType::kIQ2_XS, DType::kIQ2_S, DType::kIQ3_XXS, DType::kIQ3_S};
  static const std::array<LatticeSearch, kTypes.size()> searches = [] {
    const auto search = [](DType type) { return LatticeSearch(*formats::find_iq_lattice(type)); };
    return std::array<LatticeSearch, kTypes.size()>{search(kTypes[0]), search(kTypes[1]), search(kTypes[2]),
                                                    search(kTypes[3]), search(kTypes[4])};
  }();
  const auto* found = std::ranges::find(kTypes, dtype);
  return found == kTypes.end() ? nullptr : &searches[static_cast<std::size_t>(found - kTypes.begin())];
}

}  // namespace ballast::quant
