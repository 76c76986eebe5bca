#include "kernels/logits.h"

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

TEST_CASE("argmax finds the first of equal maxima wherever it is") {
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
