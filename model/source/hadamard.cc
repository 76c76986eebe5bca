#include "model/source/hadamard.h"

#include <cmath>
#include <random>
#include <utility>

namespace ballast::model {

namespace {

bool is_prime(std::size_t n) {
  if (n < 2) return false;
  for (std::size_t divisor = 2; divisor <= n / divisor; ++divisor) {
    if (n % divisor == 0) return false;
  }
  return true;
}

/// Returns [q]: 1 if n is a square modulo the odd prime q, -1 if not, and 0 for 0.
std::vector<std::int8_t> quadratic_characters(std::size_t q) {
  std::vector<std::int8_t> characters(q, -1);
  characters[0] = 0;
  for (std::size_t i = 1; i < q; ++i) characters[i * i % q] = 1;
  return characters;
}

/// Returns Paley's core bordered by ones, [q + 1][q + 1]: zeros on the diagonal, C C^T = q I. Symmetric for q = 1 mod
/// 4, and skew for q = 3 mod 4 after negating its first column.
std::vector<std::int8_t> conference_matrix(std::size_t q) {
  const std::size_t order = q + 1;
  const std::vector<std::int8_t> characters = quadratic_characters(q);
  std::vector<std::int8_t> matrix(order * order, 1);
  matrix[0] = 0;
  for (std::size_t r = 1; r < order; ++r) {
    matrix[r * order] = static_cast<std::int8_t>(q % 4 == 1 ? 1 : -1);
    for (std::size_t c = 1; c < order; ++c) matrix[r * order + c] = characters[(r + q - c) % q];
  }
  return matrix;
}

/// Returns I + C.
std::vector<std::int8_t> first_construction(std::size_t q) {
  std::vector<std::int8_t> matrix = conference_matrix(q);
  for (std::size_t i = 0; i <= q; ++i) matrix[i * (q + 1) + i] = 1;
  return matrix;
}

/// Replaces each entry of C by a matrix of 2 x 2: 0 by [1 -1; -1 -1], +1 and -1 by that sign times [1 1; 1 -1].
std::vector<std::int8_t> second_construction(std::size_t q) {
  const std::size_t half = q + 1;
  const std::vector<std::int8_t> conference = conference_matrix(q);
  std::vector<std::int8_t> matrix(4 * half * half);
  for (std::size_t r = 0; r < half; ++r) {
    for (std::size_t c = 0; c < half; ++c) {
      const std::int8_t entry = conference[r * half + c];
      std::int8_t* top = matrix.data() + 2 * r * 2 * half + 2 * c;
      std::int8_t* bottom = top + 2 * half;
      const auto sign = static_cast<std::int8_t>(entry == 0 ? 1 : entry);
      const auto side = static_cast<std::int8_t>(entry == 0 ? -1 : entry);
      top[0] = sign;
      top[1] = side;
      bottom[0] = side;
      bottom[1] = static_cast<std::int8_t>(-sign);
    }
  }
  return matrix;
}

/// Returns an empty matrix if neither construction gives the order.
std::vector<std::int8_t> core_of_order(std::size_t order) {
  if (order == 1) return {1};
  if (order % 4 != 0) return {};
  if (is_prime(order - 1)) return first_construction(order - 1);  // 3 mod 4
  const std::size_t q = order / 2 - 1;
  return q % 4 == 1 && is_prime(q) ? second_construction(q) : std::vector<std::int8_t>{};
}

}  // namespace

Hadamard::Hadamard(std::size_t core_order, std::size_t power)
    : core_order_(core_order), power_(power), core_(core_of_order(core_order)) {}

std::optional<Hadamard> Hadamard::of_order(std::size_t order) {
  if (order == 0) return {};
  std::size_t power = 1;
  while (order % (2 * power) == 0) power *= 2;
  for (; power >= 1; power /= 2) {
    Hadamard hadamard(order / power, power);
    if (!hadamard.core_.empty()) return hadamard;
  }
  return {};
}

std::optional<Hadamard> Hadamard::with_random_signs(std::size_t order, std::uint64_t seed) {
  std::optional<Hadamard> hadamard = of_order(order);
  if (!hadamard) return {};
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < order; ++i) hadamard->signs_.push_back((random() & 1) == 0 ? 1 : -1);
  return hadamard;
}

void Hadamard::apply(double* x, std::vector<double>& scratch) const {
  const std::size_t count = order();
  scratch.assign(count, 0.0);
  for (std::size_t i = 0; i < signs_.size(); ++i) x[i] *= signs_[i];
  // x is [core_order][power]: it is first multiplied along the second axis, by butterflies, then along the first.
  for (std::size_t half = 1; half < power_; half *= 2) {
    for (std::size_t block = 0; block < count; block += 2 * half) {
      for (std::size_t i = block; i < block + half; ++i) {
        const double sum = x[i] + x[i + half];
        x[i + half] = x[i] - x[i + half];
        x[i] = sum;
      }
    }
  }
  for (std::size_t from = 0; from < core_order_; ++from) {
    for (std::size_t to = 0; to < core_order_; ++to) {
      const double sign = core_[from * core_order_ + to];
      for (std::size_t i = 0; i < power_; ++i) scratch[to * power_ + i] += sign * x[from * power_ + i];
    }
  }
  const double scale = 1 / std::sqrt(static_cast<double>(count));
  for (std::size_t i = 0; i < count; ++i) x[i] = scale * scratch[i];
}

}  // namespace ballast::model
