#include "kernels/lattice_search.h"

#include <algorithm>
#include <functional>

#include "kernel_cases.h"

namespace ballast::kernels {
namespace {

constexpr std::size_t kElementsOfPoint[] = {4, 8};

/// Random points with elements from 1 to 9.
struct RandomPoints {
  RandomPoints(std::size_t point_size, std::size_t point_count) : size(point_size), count(point_count) {
    for (const std::uint8_t byte : random_bytes(size * count, 7)) elements.push_back(static_cast<float>(1 + byte % 9));
  }

  LatticePoints view() const { return {elements.data(), size, count}; }
  double element(std::size_t point, std::size_t i) const { return double{elements[i * count + point]}; }

  std::size_t size;
  std::size_t count;
  std::vector<float> elements;
};

/// Checks the search's point and cost on every target against `cost(point)`.
void check_search(const RandomPoints& points, const std::function<double(std::size_t point)>& cost,
                  const std::function<LatticePoint()>& search) {
  double least = cost(0);
  double size = 0;
  for (std::size_t point = 0; point < points.count; ++point) {
    least = std::min(least, cost(point));
    size = std::max(size, std::abs(cost(point)));
  }
  for_every_target([&] {
    const LatticePoint found = search();
    REQUIRE(found.index < points.count);
    CHECK(cost(found.index) <= least + 1e-5 * size);
    CHECK(std::abs(double{found.cost} - least) <= 1e-5 * size);
  });
}

TEST_CASE("searches find the point with the smallest cost on every target") {
  for (const std::size_t size : kElementsOfPoint) {
    for (const std::size_t count : {std::size_t{64}, std::size_t{256}, std::size_t{1024}}) {
      CAPTURE(size);
      CAPTURE(count);
      const RandomPoints points(size, count);
      for (unsigned seed = 0; seed < 20; ++seed) {
        std::vector<float> weights = random_floats(size, 3 * seed);
        std::vector<float> products = random_floats(size, 3 * seed + 1);
        for (std::size_t i = 0; i < size; ++i) {
          weights[i] = std::abs(weights[i]);
          products[i] = 9 * weights[i] * std::abs(products[i]);
        }
        const auto distance = [&](std::size_t point) {
          double cost = 0;
          for (std::size_t i = 0; i < size; ++i) {
            const double p = points.element(point, i);
            cost += p * (double{weights[i]} * p - 2 * double{products[i]});
          }
          return cost;
        };
        const auto flipped = [&](std::size_t point) {
          double least = 1e30;
          for (std::size_t i = 0; i < size; ++i)
            least = std::min(least, double{products[i]} * points.element(point, i));
          return distance(point) + 4 * least;
        };
        check_search(points, distance, [&] { return nearest_point(points.view(), weights.data(), products.data()); });
        check_search(points, flipped,
                     [&] { return nearest_point_with_flip(points.view(), weights.data(), products.data()); });
        // A A^T of a random matrix A is positive definite.
        const std::vector<float> factor = random_floats(size * size, 3 * seed + 2);
        std::vector<float> metric(size * size);
        for (std::size_t i = 0; i < size; ++i) {
          for (std::size_t j = 0; j < size; ++j) {
            for (std::size_t k = 0; k < size; ++k) metric[i * size + j] += factor[i * size + k] * factor[j * size + k];
          }
        }
        const auto in_metric = [&](std::size_t point) {
          double cost = 0;
          for (std::size_t i = 0; i < size; ++i) {
            for (std::size_t j = 0; j < size; ++j) {
              cost += points.element(point, i) * double{metric[i * size + j]} * points.element(point, j);
            }
            cost -= 2 * double{products[i]} * points.element(point, i);
          }
          return cost;
        };
        check_search(points, in_metric,
                     [&] { return nearest_point_in_metric(points.view(), metric.data(), products.data()); });
      }
    }
  }
}

TEST_CASE("of points with equal costs the first is found on every target") {
  RandomPoints points(4, 128);
  std::ranges::fill(points.elements, 2.0F);
  const std::vector<float> ones(4, 1.0F);
  std::vector<float> identity(16);
  for (std::size_t i = 0; i < 4; ++i) identity[5 * i] = 1;
  for (const std::size_t better : {std::size_t{0}, std::size_t{37}}) {
    points.elements[better] = points.elements[100] = 1;  // the first element of two points is nearer to 1
    for_every_target([&] {
      CHECK(nearest_point(points.view(), ones.data(), ones.data()).index == better);
      CHECK(nearest_point_in_metric(points.view(), identity.data(), ones.data()).index == better);
    });
    points.elements[better] = 2;
  }
}

}  // namespace
}  // namespace ballast::kernels
