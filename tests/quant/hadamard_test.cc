#include "model/source/hadamard.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace ballast::model {
namespace {

/// Returns the rows of a matrix as the images of unit vectors.
std::vector<std::vector<double>> rows_of(const Hadamard& matrix) {
  std::vector<std::vector<double>> rows;
  std::vector<double> scratch;
  for (std::size_t i = 0; i < matrix.order(); ++i) {
    std::vector<double>& row = rows.emplace_back(matrix.order(), 0.0);
    row[i] = 1;
    matrix.apply(row.data(), scratch);
  }
  return rows;
}

void check_orthogonal_and_even(const Hadamard& matrix) {
  const double magnitude = 1 / std::sqrt(static_cast<double>(matrix.order()));
  const auto rows = rows_of(matrix);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double product = 0;
      for (std::size_t c = 0; c < rows.size(); ++c) product += rows[i][c] * rows[j][c];
      REQUIRE(std::abs(product - (i == j ? 1 : 0)) < 1e-12);
    }
    for (const double value : rows[i]) REQUIRE(std::abs(std::abs(value) - magnitude) < 1e-12);
  }
}

TEST_CASE("rows are orthogonal and every entry has the same magnitude, for every construction") {
  // Powers of two; a prime 3 mod 4 and its doubles (12, 20, 24, 44, 60, 96); a prime 1 mod 4 (28, 36, 56, 76).
  for (const std::size_t order : {1, 2, 4, 8, 12, 20, 24, 28, 36, 44, 56, 60, 64, 76, 96, 144}) {
    CAPTURE(order);
    const auto matrix = Hadamard::of_order(order);
    REQUIRE(matrix);
    CHECK(matrix->order() == order);
    check_orthogonal_and_even(*matrix);
    check_orthogonal_and_even(*Hadamard::with_random_signs(order, 7));
  }
}

TEST_CASE("the widths of known models have a matrix") {
  for (const std::size_t order : {576, 768, 896, 960, 1024, 1536, 2048, 2560, 3072, 3584, 4096, 5120, 7168, 8192}) {
    CAPTURE(order);
    CHECK(Hadamard::of_order(order));
  }
}

TEST_CASE("orders without a construction are refused") {
  for (const std::size_t order : {0, 3, 6, 9, 66, 92, 116}) {
    CAPTURE(order);
    CHECK(!Hadamard::of_order(order));
    CHECK(!Hadamard::with_random_signs(order, 0));
  }
}

TEST_CASE("signs depend only on the seed") {
  CHECK(rows_of(*Hadamard::with_random_signs(12, 3)) == rows_of(*Hadamard::with_random_signs(12, 3)));
  CHECK(rows_of(*Hadamard::with_random_signs(12, 3)) != rows_of(*Hadamard::with_random_signs(12, 4)));
}

}  // namespace
}  // namespace ballast::model
