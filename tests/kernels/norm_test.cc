#include "kernels/norm.h"

#include "kernel_cases.h"

namespace ballast::kernels {
namespace {

/// Calls body with every combination of a present and a missing gain and bias.
template <class Body>
void for_every_parameters(const std::vector<float>& gain, const std::vector<float>& bias, const Body& body) {
  for (const float* gain_data : {gain.data(), static_cast<const float*>(nullptr)}) {
    for (const float* bias_data : {bias.data(), static_cast<const float*>(nullptr)}) {
      body(NormParameters{.gain = gain_data, .bias = bias_data, .epsilon = 1e-5F});
    }
  }
}

template <class Norm, class Reference>
void check_norm(const Norm& norm, const Reference& reference_norm, double budget) {
  for (const std::size_t size : kVectorSizes) {
    for (const std::size_t m : {1, 3, 40}) {
      std::vector<float> src = random_floats(m * size, 1);
      src[0] = 23855.0F;  // a massive activation
      for_every_parameters(random_floats(size, 2), random_floats(size, 3), [&](const NormParameters& parameters) {
        std::vector<float> expected(src.size());
        reference_norm(src.data(), m, size, parameters, expected.data());
        for_every_target([&] {
          CAPTURE(size);
          std::vector<float> actual(src.size());
          norm(src.data(), m, size, parameters, actual.data());
          CHECK(relative_error(actual, expected) <= budget);
          std::vector<float> in_place = src;
          norm(in_place.data(), m, size, parameters, in_place.data());
          CHECK(in_place == actual);
        });
      });
    }
  }
}

TEST_CASE("rms_norm agrees with the reference, with and without gain and bias, and works in place") {
  check_norm(rms_norm, reference::rms_norm, 1e-6);
}

TEST_CASE("layer_norm agrees with the reference, with and without gain and bias, and works in place") {
  check_norm(layer_norm, reference::layer_norm, 2e-6);
}

TEST_CASE("layer_norm keeps the digits of values far from zero") {
  const std::size_t size = 577;
  std::vector<float> src = random_floats(size, 4);
  for (float& value : src) value += 1000.0F;
  std::vector<float> expected(size);
  reference::layer_norm(src.data(), 1, size, {}, expected.data());
  for_every_target([&] {
    std::vector<float> actual(size);
    layer_norm(src.data(), 1, size, {}, actual.data());
    CHECK(relative_error(actual, expected) <= 1e-4);  // the mean has 2^-24 of 1000; one pass would lose everything
  });
}

TEST_CASE("norms of large and of zero rows are finite") {
  for (const float value : {0.0F, 1e4F, -1e4F}) {
    const std::vector<float> src(100, value);
    for_every_target([&] {
      std::vector<float> actual(100);
      rms_norm(src.data(), 1, 100, {}, actual.data());
      for (const float v : actual) REQUIRE(std::fabs(v) <= 1.0001F);
      layer_norm(src.data(), 1, 100, {}, actual.data());
      for (const float v : actual) REQUIRE(std::isfinite(v));
    });
  }
}

TEST_CASE("rms_norm_heads normalizes each head separately and does not change values between the rows") {
  for (const std::size_t head_size : {1, 7, 16, 33, 64, 128}) {
    const std::size_t m = 5, heads = 3, stride = heads * head_size + 3;
    const std::vector<float> x = random_floats(m * stride, 1);
    const std::vector<float> gain = random_floats(head_size, 2);
    for (const float* gain_data : {gain.data(), static_cast<const float*>(nullptr)}) {
      std::vector<float> expected = x;
      for (std::size_t i = 0; i < m; ++i) {
        float* row = expected.data() + i * stride;
        reference::rms_norm(row, heads, head_size, {.gain = gain_data, .bias = nullptr, .epsilon = 1e-6F}, row);
      }
      for_every_target([&] {
        std::vector<float> actual = x;
        rms_norm_heads(actual.data(), m, heads, head_size, stride, gain_data, 1e-6F);
        CHECK(relative_error(actual, expected) <= 1e-6);
        for (std::size_t i = 0; i < x.size(); ++i) {
          if (i % stride >= heads * head_size) REQUIRE(actual[i] == x[i]);
        }
      });
    }
  }
}

TEST_CASE("layer_norm_heads normalizes each head separately, with separate gains") {
  for (const std::size_t head_size : {1, 7, 16, 33, 64, 128}) {
    const std::size_t m = 5, heads = 3, stride = heads * head_size + 3;
    const std::vector<float> x = random_floats(m * stride, 1);
    const std::vector<float> gain = random_floats(heads * head_size, 2);
    std::vector<float> expected = x;
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t h = 0; h < heads; ++h) {
        float* head = expected.data() + i * stride + h * head_size;
        const NormParameters parameters = {.gain = gain.data() + h * head_size, .bias = nullptr, .epsilon = 1e-6F};
        reference::layer_norm(head, 1, head_size, parameters, head);
      }
    }
    for_every_target([&] {
      std::vector<float> actual = x;
      layer_norm_heads(actual.data(), m, heads, head_size, stride, gain.data(), 1e-6F);
      CHECK(relative_error(actual, expected) <= 2e-6);
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (i % stride >= heads * head_size) REQUIRE(actual[i] == x[i]);
      }
    });
  }
}

TEST_CASE("norms do not depend on the number of threads") {
  constexpr std::size_t kRows = 70, kSize = 577;
  const std::vector<float> src = random_floats(kRows * kSize, 1);
  for_every_target([&] {
    const auto run = [&] {
      std::vector<float> dst(src.size());
      layer_norm(src.data(), kRows, kSize, {}, dst.data());
      rms_norm_heads(dst.data(), kRows, 8, 64, kSize, nullptr, 1e-6F);
      return dst;
    };
    CHECK(with_threads(1, run) == with_threads(3, run));
  });
}

}  // namespace
}  // namespace ballast::kernels
