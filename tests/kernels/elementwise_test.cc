#include "kernels/elementwise.h"

#include "kernel_cases.h"

namespace ballast::kernels {
namespace {

const std::size_t kSizes[] = {1, 2, 3, 15, 16, 17, 31, 33, 64, 65, 576, 1535};

TEST_CASE("rms_norm agrees with the reference and works in place") {
  for (const std::size_t size : kSizes) {
    for (const std::size_t m : {1, 3, 40}) {
      std::vector<float> src = random_floats(m * size, 1);
      src[0] = 23855.0F;  // a massive activation
      const std::vector<float> gain = random_floats(size, 2);
      std::vector<float> expected(src.size());
      reference::rms_norm(src.data(), m, size, gain.data(), 1e-5F, expected.data());
      for_every_target([&] {
        std::vector<float> actual(src.size());
        rms_norm(src.data(), m, size, gain.data(), 1e-5F, actual.data());
        CHECK(relative_error(actual, expected) <= 1e-6);
        std::vector<float> in_place = src;
        rms_norm(in_place.data(), m, size, gain.data(), 1e-5F, in_place.data());
        CHECK(in_place == actual);
      });
    }
  }
}

TEST_CASE("rope rotates pairs half a head apart and nothing between the rows") {
  for (const std::size_t half : {1, 3, 16, 32, 33}) {
    const std::size_t m = 9, heads = 3, stride = heads * 2 * half + 4;
    const std::vector<float> x = random_floats(m * stride, 1);
    const std::vector<float> angles = random_floats(m * half, 2);
    std::vector<float> cos, sin;
    for (const float angle : angles) cos.push_back(std::cos(angle)), sin.push_back(std::sin(angle));
    std::vector<float> expected = x;
    reference::rope(expected.data(), m, heads, 2 * half, stride, cos.data(), sin.data());
    for_every_target([&] {
      std::vector<float> actual = x;
      rope(actual.data(), m, heads, 2 * half, stride, cos.data(), sin.data());
      CHECK(relative_error(actual, expected) <= 3e-7);
    });
  }
}

TEST_CASE("silu_multiply agrees with the reference, also where exp leaves F32") {
  for (const std::size_t size : kSizes) {
    std::vector<float> gate = random_floats(size, 1, 4.0F);
    const std::vector<float> up = random_floats(size, 2);
    gate[0] = -1000.0F;
    gate[size - 1] = 1000.0F;
    gate[size / 2] = -88.5F;
    std::vector<float> expected(size);
    reference::silu_multiply(gate.data(), up.data(), size, expected.data());
    for_every_target([&] {
      std::vector<float> actual(size);
      silu_multiply(gate.data(), up.data(), size, actual.data());
      for (std::size_t i = 0; i < size; ++i) {
        REQUIRE(std::fabs(actual[i] - expected[i]) <= 1e-6 * std::fabs(expected[i]) + 1e-30);
      }
      std::vector<float> in_place = gate;
      silu_multiply(in_place.data(), up.data(), size, in_place.data());
      CHECK(in_place == actual);
    });
  }
}

TEST_CASE("add adds every value, on any number of threads") {
  for (const std::size_t size : {1, 17, 100'003}) {
    const std::vector<float> src = random_floats(size, 1), before = random_floats(size, 2);
    for_every_target([&] {
      const auto run = [&] {
        std::vector<float> dst = before;
        add(src.data(), size, dst.data());
        return dst;
      };
      const std::vector<float> one = with_threads(1, run);
      for (std::size_t i = 0; i < size; ++i) REQUIRE(one[i] == before[i] + src[i]);
      CHECK(one == with_threads(2, run));
    });
  }
}

}  // namespace
}  // namespace ballast::kernels
