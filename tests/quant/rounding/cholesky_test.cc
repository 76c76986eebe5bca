#include "quant/rounding/cholesky.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "with_threads.h"

namespace ballast::quant {
namespace {

/// B B^T and a little on the diagonal, each channel of another size.
std::vector<float> uneven_matrix(std::size_t n) {
  std::mt19937_64 engine(n);
  std::normal_distribution<float> normal;
  constexpr std::size_t kSources = 40;
  std::vector<float> sources(n * kSources);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    sources[i] = normal(engine) * std::pow(10.0F, static_cast<float>(i / kSources % 5) - 2);
  }
  std::vector<float> matrix(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = 0;
      for (std::size_t s = 0; s < kSources; ++s) {
        sum += double{sources[i * kSources + s]} * double{sources[j * kSources + s]};
      }
      matrix[i * n + j] = matrix[j * n + i] = static_cast<float>(i == j ? 1.05 * sum + 1e-3 : sum);
    }
  }
  return matrix;
}

TEST_CASE("an inverse factor makes the matrix the identity, in one tile and in several") {
  for (const std::size_t n : {std::size_t{1}, std::size_t{40}, std::size_t{384}, std::size_t{385}, std::size_t{1000}}) {
    CAPTURE(n);
    const std::vector<float> matrix = uneven_matrix(n);
    Cholesky factor(matrix, n);
    REQUIRE(factor.exists());
    const std::vector<float> diagonal(factor.diagonal().begin(), factor.diagonal().end());
    const std::vector<float> inverse = std::move(factor).inverse_transposed();
    for (std::size_t i = 0; i < n; ++i) CHECK(inverse[i * n + i] * diagonal[i] == doctest::Approx(1).epsilon(1e-5));
    // L^-1 matrix L^-T, of a few rows and columns.
    for (std::size_t i = n / 7; i < n; i += n / 3 + 1) {
      std::vector<double> row(n);
      for (std::size_t a = 0; a <= i; ++a) {
        for (std::size_t b = 0; b < n; ++b) row[b] += double{inverse[a * n + i]} * double{matrix[a * n + b]};
      }
      for (std::size_t j = 0; j < n; j += 5) {
        double sum = 0;
        for (std::size_t b = 0; b <= j; ++b) sum += row[b] * double{inverse[b * n + j]};
        CHECK(std::abs(sum - (i == j ? 1.0 : 0.0)) <= 1e-3);
      }
    }
  }
}

TEST_CASE("a factor does not depend on the number of threads") {
  constexpr std::size_t kSize = 900;
  std::vector<std::vector<float>> factors;
  for (const int threads : {1, 3}) {
    test::with_threads(threads, [&] {
      factors.push_back(Cholesky(uneven_matrix(kSize), kSize).inverse_transposed());
      for (std::size_t i = 0; i < kSize; ++i) {
        for (std::size_t j = 0; j < i; ++j) factors.back()[i * kSize + j] = 0;
      }
    });
  }
  CHECK(factors[0] == factors[1]);
}

TEST_CASE("a matrix that is not positive definite has no factor") {
  for (const std::size_t bad : {std::size_t{0}, std::size_t{500}}) {
    constexpr std::size_t kSize = 600;
    std::vector<float> matrix = uneven_matrix(kSize);
    matrix[bad * (kSize + 1)] = -1;
    CHECK_FALSE(Cholesky(matrix, kSize).exists());
  }
}

}  // namespace
}  // namespace ballast::quant
