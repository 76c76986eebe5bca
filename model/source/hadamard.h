// Hadamard matrices: their entries are +1 and -1, and their rows are orthogonal.
#ifndef BALLAST_MODEL_SOURCE_HADAMARD_H_
#define BALLAST_MODEL_SOURCE_HADAMARD_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ballast::model {

/// R = diag(signs) (H_core x H_2 x ... x H_2) / sqrt(order): orthogonal, and every entry has the same magnitude, so
/// that one large channel spreads over all. Immutable.
class Hadamard {
 public:
  /// Returns a matrix without signs. The core is the smallest that gives the order: 1, or 4 k by Paley's constructions
  /// over a prime q (R. Paley 1933, "On orthogonal matrices"): q + 1 for q = 3 mod 4, 2 (q + 1) for q = 1 mod 4.
  /// Returns nullopt if there is no such core.
  static std::optional<Hadamard> of_order(std::size_t order);

  /// The seed of the signs with which models are rotated: any do, and fixed ones give the same model every time.
  static constexpr std::uint64_t kModelSeed = 0;

  /// Returns the same with signs that depend only on the seed.
  static std::optional<Hadamard> with_random_signs(std::size_t order, std::uint64_t seed);

  bool has_signs() const { return !signs_.empty(); }
  std::size_t order() const { return core_order_ * power_; }

  /// Replaces x [order] by x R. `scratch` is resized as needed.
  void apply(double* x, std::vector<double>& scratch) const;

 private:
  Hadamard(std::size_t core_order, std::size_t power);

  std::size_t core_order_;
  std::size_t power_;               ///< a power of two
  std::vector<std::int8_t> core_;   ///< [core_order][core_order]
  std::vector<std::int8_t> signs_;  ///< [order], or empty
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_HADAMARD_H_
