#include "kernels/activation.h"

#include <algorithm>

#include "kernel_cases.h"
#include "kernels/attention/head_gates.h"

namespace ballast::kernels {
namespace {

const Activation kActivations[] = {Activation::kSilu, Activation::kGelu,        Activation::kGeluTanh,
                                   Activation::kRelu, Activation::kReluSquared, Activation::kGeluSigmoid,
                                   Activation::kTanh};
/// Returns arguments from -20 to 20 in steps of 1/512, and magnitudes up to 1e4.
std::vector<float> arguments() {
  std::vector<float> values = {-1e4F, -1000.0F, -200.0F, -88.5F, -87.0F, 87.0F, 88.5F, 200.0F, 1000.0F, 1e4F, -0.0F};
  for (int i = -20 * 512; i <= 20 * 512; ++i) values.push_back(static_cast<float>(i) / 512.0F);
  return values;
}

TEST_CASE("activations agree with F64 within 1e-6 of their argument, from -1e4 to 1e4") {
  const std::vector<float> x = arguments();
  for_every_target([&] {
    for (const Activation kind : kActivations) {
      std::vector<float> actual = x;
      activate(kind, actual.data(), actual.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double expected = reference::activation(kind, x[i]);
        CAPTURE(static_cast<int>(kind));
        CAPTURE(x[i]);
        REQUIRE(std::fabs(actual[i] - expected) <= 1e-6 * std::max({1.0, std::fabs(double{x[i]}), expected}));
      }
    }
  });
}

TEST_CASE("an activation passes NaN on") {
  for_every_target([&] {
    for (const Activation kind : kActivations) {
      std::vector<float> values(33, NAN);
      activate(kind, values.data(), values.size());
      for (const float value : values) REQUIRE(std::isnan(value));
    }
  });
}

TEST_CASE("activate_multiply is the activation times the second factor, in place too, for every size") {
  for (const std::size_t size : kVectorSizes) {
    std::vector<float> gate = random_floats(size, 1, 4.0F);
    const std::vector<float> up = random_floats(size, 2);
    gate[0] = -1000.0F;
    gate[size - 1] = 1000.0F;
    gate[size / 2] = -88.5F;
    for (const Activation kind : kActivations) {
      std::vector<float> expected(size);
      reference::activate_multiply(kind, gate.data(), up.data(), size, expected.data());
      for_every_target([&] {
        std::vector<float> actual(size);
        activate_multiply(kind, gate.data(), up.data(), size, actual.data());
        for (std::size_t i = 0; i < size; ++i) {
          const double budget =
              1e-6 * (std::max(1.0F, std::fabs(gate[i])) * std::fabs(up[i]) + std::fabs(expected[i])) + 1e-30;
          REQUIRE(std::fabs(actual[i] - expected[i]) <= budget);
        }
        std::vector<float> in_place = gate;
        activate_multiply(kind, in_place.data(), up.data(), size, in_place.data());
        CHECK(in_place == actual);
      });
    }
  }
}

TEST_CASE("activate_multiply_limited limits the gate from above and the second factor on both sides") {
  for (const std::size_t size : kVectorSizes) {
    std::vector<float> gate = random_floats(size, 1, 4.0F);
    std::vector<float> up = random_floats(size, 2, 4.0F);
    gate[0] = -1000.0F;
    gate[size - 1] = 1000.0F;
    up[size / 2] = -1000.0F;
    for (const UpLimits limits :
         {UpLimits{.limit = 2.5F, .offset = 1.0F}, UpLimits{.limit = 0.5F}, UpLimits{.offset = -1.0F}}) {
      for (const Activation kind : kActivations) {
        std::vector<float> expected(size);
        reference::activate_multiply_limited(kind, limits, gate.data(), up.data(), size, expected.data());
        for_every_target([&] {
          std::vector<float> actual = gate;
          activate_multiply_limited(kind, limits, actual.data(), up.data(), size, actual.data());
          CHECK(relative_error(actual, expected) <= 2e-6);
        });
      }
    }
  }
}

TEST_CASE("silu keeps its relative precision, also where exp leaves F32") {
  const std::vector<float> x = arguments();
  for_every_target([&] {
    std::vector<float> actual = x;
    activate(Activation::kSilu, actual.data(), actual.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = reference::activation(Activation::kSilu, x[i]);
      REQUIRE(std::fabs(actual[i] - expected) <= 1e-6 * std::fabs(expected) + 1e-30);
    }
  });
}

TEST_CASE("multiply_sigmoid gates every value by its own gate and reads nothing between the gates' rows") {
  for (const std::size_t size : kVectorSizes) {
    const std::size_t m = 3, stride = size + 2;
    const std::vector<float> x = random_floats(m * size, 1);
    std::vector<float> gate = random_floats(m * stride, 2, 5.0F);
    for (std::size_t i = 0; i < m; ++i) gate[i * stride + size] = NAN;
    gate[0] = -1e4F;
    gate[stride] = 1e4F;
    std::vector<float> expected = x;
    reference::multiply_sigmoid(expected.data(), m, size, gate.data(), stride);
    for_every_target([&] {
      std::vector<float> actual = x;
      multiply_sigmoid(actual.data(), m, size, gate.data(), stride);
      CHECK(relative_error(actual, expected) <= 1e-6);
    });
  }
}

TEST_CASE("multiply_head_sigmoid gates all values of a head alike and reads nothing between the gates' rows") {
  for (const std::size_t size : kVectorSizes) {
    for (const std::size_t heads : {1, 3}) {
      const std::size_t m = 4, stride = heads + 2;
      const std::vector<float> x = random_floats(m * heads * size, 1);
      std::vector<float> gate = random_floats(m * stride, 2, 5.0F);
      for (std::size_t i = 0; i < m; ++i) gate[i * stride + heads] = NAN;
      gate[0] = -1e4F;
      gate[stride] = 1e4F;
      std::vector<float> expected = x;
      reference::multiply_head_sigmoid(expected.data(), m, heads, size, gate.data(), stride);
      for_every_target([&] {
        for (const int threads : {1, 3}) {
          const std::vector<float> actual = test::with_threads(threads, [&] {
            std::vector<float> gated = x;
            multiply_head_sigmoid(gated.data(), m, heads, size, gate.data(), stride);
            return gated;
          });
          CHECK(relative_error(actual, expected) <= 1e-6);
        }
      });
    }
  }
}

}  // namespace
}  // namespace ballast::kernels
