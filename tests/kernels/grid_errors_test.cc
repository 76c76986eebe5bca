#include "kernels/grid_errors.h"

#include <algorithm>
#include <cmath>

#include "kernel_cases.h"

namespace ballast::kernels {
namespace {

double expected_error(std::span<const float> values, std::span<const float> weights, const StepGrid& grid) {
  double error = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float step = std::nearbyint(std::clamp((values[i] + grid.minimum) * grid.inverse, grid.low, grid.high));
    const double difference = double{values[i]} - (double{step} * double{grid.scale} - double{grid.minimum});
    error += double{weights[i]} * difference * difference;
  }
  return error;
}

TEST_CASE("errors of grids equal a plain loop's on every target, for all lengths of the last vector") {
  for (const std::size_t count : {1, 15, 16, 31, 32, 33, 64, 128, 577}) {
    CAPTURE(count);
    const std::vector<float> values = random_floats(count, 1);
    std::vector<float> weights = random_floats(count, 2);
    for (float& weight : weights) weight = std::abs(weight);
    std::vector<StepGrid> grids = {{.minimum = 0.25F, .low = 0, .high = 15}};  // all values become -0.25
    for (const float scale : {0.01F, 0.1F, -0.2F, 1.0F}) {
      for (const float minimum : {0.0F, 0.5F, -1.5F}) {
        grids.push_back({.scale = scale, .inverse = 1 / scale, .minimum = minimum, .low = -8, .high = 7});
        grids.push_back({.scale = scale, .inverse = 1 / scale, .minimum = minimum, .low = 0, .high = 255});
      }
    }
    for_every_target([&] {
      std::vector<float> errors(grids.size());
      grid_errors(values, weights, grids, errors);
      for (std::size_t g = 0; g < grids.size(); ++g) {
        CAPTURE(g);
        CHECK(errors[g] == doctest::Approx(expected_error(values, weights, grids[g])).epsilon(1e-5));
      }
    });
  }
}

TEST_CASE("if only some whole numbers are steps, values are rounded to the nearest of these on every target") {
  // The steps are -3, 0, 1 and 4. There is an entry for each whole number from -3 to 4, for the values that round to
  // it.
  const std::vector<float> nearest = {-3, -3, -3, 0, 0, 0, 0, 1, 1, 1, 1, 4, 4, 4, 4};
  const std::vector<float> values = {-9, -3.2F, -1.6F, -1.4F, 0.1F, 0.4F, 0.6F, 2.4F, 2.6F, 3.9F, 4.1F, 9};
  const std::vector<float> steps = {-3, -3, -3, 0, 0, 0, 1, 1, 4, 4, 4, 4};
  const std::vector<float> weights(values.size(), 1.0F);
  for (const float scale : {0.5F, -2.0F}) {
    std::vector<float> scaled;
    double expected = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      scaled.push_back(values[i] * scale);
      expected += std::pow(double{values[i] - steps[i]} * double{scale}, 2);
    }
    const StepGrid grid = {.scale = scale, .inverse = 1 / scale, .low = -3, .high = 4};
    for_every_target([&] {
      float error = 0;
      grid_errors(scaled, weights, {&grid, 1}, {&error, 1}, {nearest.data(), -3});
      CHECK(error == doctest::Approx(expected).epsilon(1e-5));
    });
  }
}

TEST_CASE("values between two steps go to the even one") {
  const std::vector<float> values = {0.5F, 1.5F, 2.5F, -0.5F};
  const std::vector<float> weights = {1, 10, 100, 1000};
  const StepGrid grid = {.scale = 1, .inverse = 1, .low = -4, .high = 4};
  for_every_target([&] {
    float error = 0;
    grid_errors(values, weights, {&grid, 1}, {&error, 1});
    CHECK(error == 0.25F * 1111);
  });
}

}  // namespace
}  // namespace ballast::kernels
