#include "quant/rounding/grids/lattice_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

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
  find_neighbors();
}

void LatticeSearch::find_neighbors() {
  neighbors_.reserve(count_ * kNeighbors);
  neighbor_elements_.resize(count_ * kNeighbors * size_);
  std::vector<std::pair<float, std::uint32_t>> distances(count_);
  for (std::size_t p = 0; p < count_; ++p) {
    for (std::size_t other = 0; other < count_; ++other) {
      float distance = 0;
      for (std::size_t i = 0; i < size_; ++i) {
        const float difference = elements_[i * count_ + p] - elements_[i * count_ + other];
        distance += difference * difference;
      }
      distances[other] = {distance, static_cast<std::uint32_t>(other)};
    }
    std::ranges::partial_sort(distances, distances.begin() + kNeighbors);
    for (std::size_t n = 0; n < kNeighbors; ++n) {
      const std::uint32_t neighbor = distances[n].second;
      neighbors_.push_back(neighbor);
      for (std::size_t i = 0; i < size_; ++i) {
        neighbor_elements_[(p * size_ + i) * kNeighbors + n] = elements_[i * count_ + neighbor];
      }
    }
  }
}

void LatticeSearch::copy_point(std::size_t point, const float* signs, float* steps) const {
  for (std::size_t i = 0; i < size_; ++i) steps[i] = std::copysign(elements_[i * count_ + point], signs[i]);
}

/// `search` finds the nearest point of a part: search(part, weights, products, flips).
template <class Search>
float LatticeSearch::nearest_by(const float* values, const float* weights, float scale, const Search& search,
                                Steps& steps, Points& points) const {
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
  const auto nearest_of = [&](std::size_t part, bool flips) {
    return search(part, weights + part * size_, products.data() + part * size_, flips);
  };
  const std::size_t parts = kCell / size_;
  std::array<kernels::LatticePoint, 2> best;
  for (std::size_t part = 0; part < parts; ++part) best[part] = nearest_of(part, false);
  std::array<float, kCell> signs;
  std::copy_n(values, kCell, signs.begin());
  if (even_signs_ && odd) {
    // The part that loses less has the wrong sign.
    std::size_t flipped_part = parts;
    kernels::LatticePoint flipped;
    float least = 0;
    for (std::size_t part = 0; part < parts; ++part) {
      const kernels::LatticePoint other = nearest_of(part, true);
      const float loss = other.cost - best[part].cost;
      if (flipped_part != parts && !(loss < least)) continue;
      least = loss;
      flipped = other;
      flipped_part = part;
    }
    best[flipped_part] = flipped;
    std::size_t cheapest = flipped_part * size_;
    const auto cost_of = [&](std::size_t i) {
      return products[i] * elements_[(i - flipped_part * size_) * count_ + flipped.index];
    };
    for (std::size_t i = cheapest + 1; i < (flipped_part + 1) * size_; ++i) {
      if (cost_of(i) < cost_of(cheapest)) cheapest = i;
    }
    signs[cheapest] = -signs[cheapest];
  }
  float cost = energy;
  for (std::size_t part = 0; part < parts; ++part) {
    points[part] = best[part].index;
    copy_point(best[part].index, signs.data() + part * size_, steps.data() + part * size_);
    cost += best[part].cost;
  }
  return std::max(0.0F, cost * scale * scale);
}

float LatticeSearch::nearest(const float* values, const float* weights, float scale, Steps& steps,
                             Points& points) const {
  const auto search = [&](std::size_t, const float* part_weights, const float* products, bool flips) {
    const auto find = flips ? kernels::nearest_point_with_flip : kernels::nearest_point;
    return find(this->points(), part_weights, products);
  };
  return nearest_by(values, weights, scale, search, steps, points);
}

float LatticeSearch::nearest_around(const float* values, const float* weights, float scale, Steps& steps,
                                    Points& points) const {
  const Points around = points;
  const auto search = [&](std::size_t part, const float* part_weights, const float* products, bool flips) {
    const auto find = flips ? kernels::nearest_point_with_flip : kernels::nearest_point;
    kernels::LatticePoint found = find(neighbors(around[part]), part_weights, products);
    found.index = neighbors_[around[part] * kNeighbors + found.index];
    return found;
  };
  return nearest_by(values, weights, scale, search, steps, points);
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
  Points points;
  nearest(values, weights.data(), 1, steps, points);
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

void LatticeSearch::nearest_codes(const WeightedGroup& group, const QuantParams& grid,
                                  std::span<std::uint8_t> codes) const {
  const float scale = grid.scale > 0 ? grid.scale : 1;  // with a scale of 0 any point will do
  Steps steps;
  Points points;
  for (std::size_t begin = 0; begin < group.values.size(); begin += kCell) {
    nearest(group.values.data() + begin, group.weights.data() + begin, scale, steps, points);
    for (std::size_t i = 0; i < kCell; ++i) {
      codes[begin + i] = static_cast<std::uint8_t>(static_cast<int>(steps[i]) + grid.zero_point);
    }
  }
}

const LatticeSearch* find_lattice_search(DType dtype) {
  static constexpr std::array kTypes = {DType::kIQ2_XXS, DType::kIQ2_XS, DType::kIQ2_S, DType::kIQ3_XXS, DType::kIQ3_S};
  const auto* found = std::ranges::find(kTypes, dtype);
  if (found == kTypes.end()) return nullptr;
  // Built for the first lattice: other types need neither the time nor the memory.
  static const std::array<LatticeSearch, kTypes.size()> searches = [] {
    const auto search = [](DType type) { return LatticeSearch(*formats::find_iq_lattice(type)); };
    return std::array<LatticeSearch, kTypes.size()>{search(kTypes[0]), search(kTypes[1]), search(kTypes[2]),
                                                    search(kTypes[3]), search(kTypes[4])};
  }();
  return &searches[static_cast<std::size_t>(found - kTypes.begin())];
}

const LatticeSearch* lattice_search_of(const WeightFormat& format) {
  return format.kind == WeightFormat::Kind::kBlocks ? find_lattice_search(format.block_type) : nullptr;
}

}  // namespace ballast::quant
