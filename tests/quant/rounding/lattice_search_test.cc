#include "quant/rounding/grids/lattice_search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace ballast::quant {
namespace {

constexpr DType kLatticeTypes[] = {DType::kIQ2_XXS, DType::kIQ2_XS, DType::kIQ2_S, DType::kIQ3_XXS, DType::kIQ3_S};

using Steps = LatticeSearch::Steps;
using Points = LatticeSearch::Points;

/// All points of one part of a cell with all signs.
struct SignedPoints {
  explicit SignedPoints(const formats::IqLattice& lattice) : size(lattice.point_elements) {
    for (std::size_t p = 0; p < lattice.point_count(); ++p) {
      for (unsigned signs = 0; signs < (1U << size); ++signs) {
        for (std::size_t i = 0; i < size; ++i) {
          const auto step = static_cast<float>(lattice.points[p * size + i]);
          elements.push_back(((signs >> i) & 1U) != 0 ? -step : step);
        }
        odd_signs.push_back(std::popcount(signs) % 2 != 0);
      }
    }
  }

  std::size_t size;
  std::vector<float> elements;  ///< [points][size]
  std::vector<bool> odd_signs;  ///< [points]
};

/// Returns whether the steps are a point that the type can store.
bool is_point(const formats::IqLattice& lattice, const Steps& steps) {
  const std::size_t size = lattice.point_elements;
  for (std::size_t begin = 0; begin < kCell; begin += size) {
    bool found = false;
    for (std::size_t p = 0; p < lattice.point_count() && !found; ++p) {
      found = true;
      for (std::size_t i = 0; i < size; ++i) {
        found = found && std::abs(steps[begin + i]) == static_cast<float>(lattice.points[p * size + i]);
      }
    }
    if (!found) return false;
  }
  return !lattice.even_signs || std::ranges::count_if(steps, [](float step) { return step < 0; }) % 2 == 0;
}

/// Returns the smallest cost of all points, with a metric that is diagonal between the parts of a cell.
double least_cost(const SignedPoints& points, bool even_signs, const float* values, const CellMetric& metric) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const std::size_t size = points.size;
  double even = 0;  // the smallest cost of the parts so far with an even number of negative steps
  double odd = kNone;
  for (std::size_t begin = 0; begin < kCell; begin += size) {
    double part_even = kNone;
    double part_odd = kNone;
    for (std::size_t p = 0; p < points.odd_signs.size(); ++p) {
      const float* point = points.elements.data() + p * size;
      double cost = 0;
      for (std::size_t i = 0; i < size; ++i) {
        const float* row = metric.data() + (begin + i) * kCell + begin;
        const double error = values[begin + i] - point[i];
        double sum = 0.5 * row[i] * error;
        for (std::size_t k = 0; k < i; ++k) sum += row[k] * double{values[begin + k] - point[k]};
        cost += 2 * error * sum;
      }
      double& least = points.odd_signs[p] ? part_odd : part_even;
      least = std::min(least, cost);
    }
    const double next_even = std::min(even + part_even, odd + part_odd);
    odd = std::min(even + part_odd, odd + part_even);
    even = next_even;
  }
  return even_signs ? even : std::min(even, odd);
}

/// Returns normal values of about the size of a lattice's steps.
std::vector<float> values_for(const formats::IqLattice& lattice, std::mt19937& random) {
  const float size = 0.5F * static_cast<float>(std::ranges::max(lattice.points));
  std::normal_distribution<float> normal(0, size);
  std::vector<float> values(kCell);
  for (float& value : values) value = normal(random);
  return values;
}

TEST_CASE("the nearest point by weights is exactly that of all points and signs") {
  std::mt19937 random(3);
  for (const DType type : kLatticeTypes) {
    CAPTURE(dtype_info(type).name);
    const formats::IqLattice& lattice = *formats::find_iq_lattice(type);
    const SignedPoints points(lattice);
    for (int i = 0; i < 10; ++i) {
      const std::vector<float> values = values_for(lattice, random);
      CellMetric metric{};
      std::vector<float> weights(kCell);
      for (std::size_t c = 0; c < kCell; ++c) {
        weights[c] = std::exp2(static_cast<float>(random() % 4));
        metric[c * (kCell + 1)] = weights[c];
      }
      Steps steps;
      Points nearest;
      const float cost = find_lattice_search(type)->nearest(values.data(), weights.data(), 1, steps, nearest);
      CHECK(is_point(lattice, steps));
      CHECK(double{cost} ==
            doctest::Approx(least_cost(points, lattice.even_signs, values.data(), metric)).epsilon(1e-4));
      // A power of two only changes the unit.
      std::vector<float> smaller = values;
      for (float& value : smaller) value *= 0.125F;
      Steps same;
      CHECK(find_lattice_search(type)->nearest(smaller.data(), weights.data(), 0.125F, same, nearest) == cost / 64);
      CHECK(same == steps);
      // The nearest point of all is the nearest one around it.
      CHECK(find_lattice_search(type)->nearest_around(values.data(), weights.data(), 1, same, nearest) == cost);
      CHECK(same == steps);
    }
  }
}

TEST_CASE("with another scale the nearest point around the last one costs nearly what that of all points does") {
  std::mt19937 random(5);
  for (const DType type : kLatticeTypes) {
    CAPTURE(dtype_info(type).name);
    const formats::IqLattice& lattice = *formats::find_iq_lattice(type);
    const LatticeSearch& search = *find_lattice_search(type);
    for (const float scale : {0.88F, 0.94F, 1.06F, 1.12F}) {
      CAPTURE(scale);
      double around = 0;
      double least = 0;
      for (int i = 0; i < 200; ++i) {
        const std::vector<float> values = values_for(lattice, random);
        std::vector<float> weights(kCell);
        for (float& weight : weights) weight = std::exp2(static_cast<float>(random() % 4));
        Steps steps;
        Points points;
        search.nearest(values.data(), weights.data(), 1, steps, points);
        around += double{search.nearest_around(values.data(), weights.data(), scale, steps, points)};
        CHECK(is_point(lattice, steps));
        least += double{search.nearest(values.data(), weights.data(), scale, steps, points)};
      }
      CHECK(around >= least);
      CHECK(around <= 1.04 * least);
    }
  }
}

TEST_CASE("a point in a metric costs its errors, and little more than the best of all points and signs") {
  for (const DType type : kLatticeTypes) {
    CAPTURE(dtype_info(type).name);
    const formats::IqLattice& lattice = *formats::find_iq_lattice(type);
    const SignedPoints points(lattice);
    std::mt19937 random(4);
    std::normal_distribution<float> normal;
    double sum = 0;
    double least = 0;
    double diagonal = 0;
    for (int i = 0; i < 20; ++i) {
      const std::vector<float> values = values_for(lattice, random);
      // Correlations of up to about a half, between the parts of a cell as well if the best point can still be found.
      CellMetric metric{};
      for (std::size_t factor = 0; factor < 3; ++factor) {
        std::vector<float> direction(kCell);
        for (float& value : direction) value = 0.5F * normal(random);
        for (std::size_t r = 0; r < kCell; ++r) {
          for (std::size_t c = 0; c < kCell; ++c) {
            const bool together = r / lattice.point_elements == c / lattice.point_elements;
            if (together) metric[r * kCell + c] += direction[r] * direction[c];
          }
        }
      }
      for (std::size_t c = 0; c < kCell; ++c) metric[c * (kCell + 1)] += 0.5F;
      Steps steps;
      const float cost = find_lattice_search(type)->nearest_in_metric(values.data(), metric, steps);
      REQUIRE(is_point(lattice, steps));
      const auto cost_of = [&](const Steps& chosen) {
        double expected = 0;
        for (std::size_t r = 0; r < kCell; ++r) {
          for (std::size_t c = 0; c < kCell; ++c) {
            expected += (double{values[r]} - double{chosen[r]}) * double{metric[r * kCell + c]} *
                        (double{values[c]} - double{chosen[c]});
          }
        }
        return expected;
      };
      CHECK(double{cost} == doctest::Approx(cost_of(steps)).epsilon(1e-4));
      std::vector<float> weights(kCell);
      for (std::size_t c = 0; c < kCell; ++c) weights[c] = metric[c * (kCell + 1)];
      Steps by_weights;
      Points nearest;
      find_lattice_search(type)->nearest(values.data(), weights.data(), 1, by_weights, nearest);
      sum += double{cost};
      least += least_cost(points, lattice.even_signs, values.data(), metric);
      diagonal += cost_of(by_weights);
    }
    CHECK(sum >= least * (1 - 1e-5));
    CHECK(sum <= 1.05 * least);
    CHECK(sum < diagonal);
  }
}

TEST_CASE("values of 0 and far outside have points") {
  for (const DType type : kLatticeTypes) {
    const formats::IqLattice& lattice = *formats::find_iq_lattice(type);
    CellMetric metric{};
    for (std::size_t c = 0; c < kCell; ++c) metric[c * (kCell + 1)] = 1;
    for (const float value : {0.0F, -0.0F, 1e6F, -1e6F}) {
      std::vector<float> values(kCell, 1.0F);
      values[3] = value;
      Steps steps;
      find_lattice_search(type)->nearest_in_metric(values.data(), metric, steps);
      CHECK(is_point(lattice, steps));
    }
  }
}

}  // namespace
}  // namespace ballast::quant
