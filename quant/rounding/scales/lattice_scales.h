// The scales of a GGUF's IQ types: an F16 for 256 columns, and odd factors of 16 or 32 columns.
#ifndef BALLAST_QUANT_ROUNDING_SCALES_LATTICE_SCALES_H_
#define BALLAST_QUANT_ROUNDING_SCALES_LATTICE_SCALES_H_

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "ballast/tensor.h"
#include "quant/rounding/grids/grid_search.h"
#include "quant/rounding/grids/lattice_search.h"
#include "quant/rounding/grids/quant_params.h"
#include "quant/rounding/scales/stored_scales.h"

namespace ballast::quant {

class LatticeScales final : public StoredScales {
 public:
  /// The type must have a lattice.
  LatticeScales(DType dtype, GridMethod method);

  /// The grids were found for each value on its own; those that replace them have the smallest error of the lattice's
  /// nearest points.
  void store(std::span<const WeightedGroup> groups, RowGrids& grids) const override;

 private:
  static constexpr std::size_t kMostCells = 4;  ///< of a group

  /// A group's nearest points for one scale, and sums over their steps.
  struct Fit {
    float scale = 0;  ///< 0: without points
    std::array<LatticeSearch::Points, kMostCells> points{};
    float error = 0;
    double steps_values = 0;   ///< sum of weight * step * value
    double steps_squared = 0;  ///< sum of weight * step^2
  };

  /// The stored values of a block, and their squared error.
  struct Stored {
    float scale = 0;
    std::vector<int> factors;
    std::vector<Fit> fits;
    float error = 0;
  };

  /// Searches near `known`'s points if the scale is nearly that of `known`.
  Fit fit(const WeightedGroup& group, float scale, const Fit& known) const;

  /// Replaces a fit by that with the smallest error of scales around its own.
  void improve(const WeightedGroup& group, Fit& best) const;

  float group_scale(float scale, int factor) const { return scale * lattice_.unit * static_cast<float>(factor); }
  Stored with_scale(std::span<const WeightedGroup> groups, std::span<const Fit> wanted, double scale) const;
  Stored best_stored(std::span<const WeightedGroup> groups, std::span<const Fit> wanted) const;

  const formats::IqLattice& lattice_;
  const LatticeSearch& search_;
  GridMethod method_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_SCALES_LATTICE_SCALES_H_
