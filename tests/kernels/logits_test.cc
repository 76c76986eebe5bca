#include "kernels/logits.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel_cases.h"

namespace ballast::kernels {
namespace {

const std::size_t kVocabularySizes[] = {1, 2, 15, 16, 17, 33, 49'152, 49'153};

TEST_CASE("log_sum_exp and the divergence agree with the reference on every target") {
  for (const std::size_t size : kVocabularySizes) {
    std::vector<float> p = random_floats(size, 1, 4.0F);
    std::vector<float> q = p;
    const std::vector<float> noise = random_floats(size, 2, 0.1F);
    for (std::size_t i = 0; i < size; ++i) q[i] += noise[i];
    p[size / 2] += 500.0F;  // far beyond the range of exp
    q[size / 2] += 498.0F;
    const double sum = reference::log_sum_exp(p.data(), size);
    const std::vector<float> other = random_floats(size, 3, 4.0F);
    const double near = reference::kl_divergence(p.data(), q.data(), size);
    const double far = reference::kl_divergence(other.data(), q.data(), size);
    for_every_target([&] {
      CHECK(log_sum_exp(p.data(), size) == doctest::Approx(sum).epsilon(1e-9));
      CHECK(std::fabs(kl_divergence(p.data(), q.data(), size) - near) <= 1e-7 * (1.0 + near));
      CHECK(std::fabs(kl_divergence(other.data(), q.data(), size) - far) <= 1e-6 * (1.0 + far));
    });
  }
}

TEST_CASE("a row's divergence from itself is zero, and no divergence is negative") {
  for (const std::size_t size : kVocabularySizes) {
    const std::vector<float> p = random_floats(size, 1, 4.0F);
    std::vector<float> q = p;
    q[0] = std::nextafterf(q[0], 100.0F);
    for_every_target([&] {
      CHECK(kl_divergence(p.data(), p.data(), size) == 0.0);
      CHECK(kl_divergence(p.data(), q.data(), size) >= 0.0);
      CHECK(kl_divergence(p.data(), q.data(), size) < 1e-7);  // exponentials are F32
    });
  }
}

TEST_CASE("weights and the sums of their blocks agree with exponentials in F64") {
  for (const std::size_t size : kVocabularySizes) {
    std::vector<float> logits = random_floats(size, 4, 30.0F);
    logits[size / 3] = std::numeric_limits<float>::lowest();
    const float largest = *std::max_element(logits.begin(), logits.end());
    for (const float scale : {0.0F, 0.5F, 1.0F, 1e30F}) {
      for_every_target([&] {
        std::vector<float> weights(size, -1.0F);
        std::vector<double> sums((size + kWeightBlock - 1) / kWeightBlock, -1.0);
        const double total = sum_weights(logits.data(), size, largest, scale, weights.data(), sums.data());
        double expected_total = 0;
        std::vector<double> expected_sums(sums.size());
        double worst = 0;
        for (std::size_t i = 0; i < size; ++i) {
          const double distance = (double{logits[i]} - double{largest}) * double{scale};
          const double expected = distance < -87 ? 0 : std::exp(distance);
          // The product is rounded to F32 before the exponential.
          worst = std::max(worst, std::fabs(double{weights[i]} - expected) / (expected + 1e-37));
          expected_sums[i / kWeightBlock] += expected;
          expected_total += expected;
        }
        CHECK(worst < 2e-5);
        CHECK(total == doctest::Approx(expected_total).epsilon(1e-5));
        for (std::size_t i = 0; i < sums.size(); ++i) {
          CHECK(sums[i] == doctest::Approx(expected_sums[i]).epsilon(1e-5));
        }
      });
    }
  }
}

TEST_CASE("argmax finds the first of equal maxima at any position") {
  for (const std::size_t size : {1, 5, 16, 17, 70}) {
    for (std::size_t at = 0; at < size; ++at) {
      std::vector<float> values(size, -3.0F);
      values[at] = -1.0F;
      values[size - 1] = -1.0F;
      for_every_target([&] { CHECK(argmax(values.data(), size) == at); });
    }
  }
}

}  // namespace
}  // namespace ballast::kernels
