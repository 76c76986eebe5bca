// Nearest points of the lattices of a GGUF's IQ types.
#ifndef BALLAST_QUANT_ROUNDING_GRIDS_LATTICE_SEARCH_H_
#define BALLAST_QUANT_ROUNDING_GRIDS_LATTICE_SEARCH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ballast/recipe.h"
#include "formats/blocks/iq_lattice.h"
#include "kernels/lattice_search.h"
#include "quant/rounding/grids/grid_search.h"
#include "quant/rounding/grids/quant_params.h"

namespace ballast::quant {

/// A cell: the columns that are rounded together, because signs or a grid's point connect them.
inline constexpr std::size_t kCell = formats::kCellElements;

/// The cost of errors of a cell: error^T metric error. Symmetric and positive definite.
using CellMetric = std::array<float, kCell * kCell>;

/// Rounds cells to a lattice. Thread-safe.
class LatticeSearch {
 public:
  explicit LatticeSearch(const formats::IqLattice& lattice);

  using Steps = std::array<float, kCell>;       ///< signed
  using Points = std::array<std::uint32_t, 2>;  ///< of a cell; the second one if points have half of its elements

  /// Stores the steps with the smallest sum of weights[i] * (values[i] - scale * steps[i])^2, and their points; returns
  /// that sum. The scale must be positive.
  float nearest(const float* values, const float* weights, float scale, Steps& steps, Points& points) const;

  /// The same among the points closest to `points`, for values or a scale that are nearly those of the last search: 4
  /// to 16 times as fast.
  float nearest_around(const float* values, const float* weights, float scale, Steps& steps, Points& points) const;

  /// Stores steps with a small cost of the errors values[i] - steps[i]; returns that. Starting from the nearest point
  /// by the metric's diagonal, it alternates between the best point for the signs and the best change of one sign, or
  /// of two where their number must stay even, until neither helps: with strong correlations 3 to 5 % above the
  /// smallest cost at 2 bits and 1 % at 3, where the nearest point by the diagonal is 35 to 60 % and 12 % above it
  /// (lattice_search_test.cc).
  float nearest_in_metric(const float* values, const CellMetric& metric, Steps& steps) const;

  /// Stores the codes of the points nearest to a group's values.
  void nearest_codes(const WeightedGroup& group, const QuantParams& grid, std::span<std::uint8_t> codes) const;

 private:
  /// Replaces the steps of part `part` of a cell, for its signs, by those with the smallest cost.
  void improve_point(const float* values, const CellMetric& metric, std::size_t part, Steps& steps) const;

  static constexpr std::size_t kNeighbors = 64;

  kernels::LatticePoints points() const { return {elements_.data(), size_, count_}; }
  kernels::LatticePoints neighbors(std::uint32_t point) const {
    return {neighbor_elements_.data() + point * kNeighbors * size_, size_, kNeighbors};
  }
  template <class Search>
  float nearest_by(const float* values, const float* weights, float scale, const Search& search, Steps& steps,
                   Points& points) const;
  void find_neighbors();
  void copy_point(std::size_t point, const float* signs, float* steps) const;

  std::size_t size_;   ///< elements of a point
  std::size_t count_;  ///< points
  bool even_signs_;
  std::vector<float> elements_;           ///< [size][points]
  std::vector<std::uint32_t> neighbors_;  ///< [points][kNeighbors]: the closest ones, the point itself first
  std::vector<float> neighbor_elements_;  ///< [points][size][kNeighbors]
};

/// Returns the search of a type that matrices can be rounded to; null: the type is no lattice.
const LatticeSearch* find_lattice_search(DType dtype);

/// Returns the search of a format's lattice, or null.
const LatticeSearch* lattice_search_of(const WeightFormat& format);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_GRIDS_LATTICE_SEARCH_H_
