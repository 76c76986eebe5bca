// The scales of a GGUF's IQ types: an F16 for 256 columns, and odd factors of 16 or 32 columns.
#ifndef BALLAST_QUANT_ROUNDING_SCALES_LATTICE_SCALES_H_
#define BALLAST_QUANT_ROUNDING_SCALES_LATTICE_SCALES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ballast/tensor.h"
#include "quant/rounding/grids/grid_search.h"
#include "quant/rounding/grids/lattice_search.h"
#include "quant/rounding/grids/quant_params.h"

namespace ballast::quant {

class LatticeScales {
 public:
  /// The type must have a lattice.
  LatticeScales(DType dtype, GridMethod method);

  /// Replaces the grids of a row's groups, which were found for each value on its own, by those of the scales that are
  /// stored, with the smallest error of the lattice's nearest points. Blocks must be whole.
  void store(std::span<const WeightedGroup> groups, RowGrids& grids) const;

  /// Stores the codes of the points nearest to a group's values.
  void round(const WeightedGroup& group, const QuantParams& grid, std::uint8_t* codes) const;

 private:
  /// Sums over a group's steps for one scale.
  struct Fit {
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

  Fit fit(const WeightedGroup& group, float scale) const;

  /// Returns the scale with the smallest error of those around `start`.
  float searched_scale(const WeightedGroup& group, float start) const;

  float group_scale(float scale, int factor) const { return scale * lattice_.unit * static_cast<float>(factor); }
  Stored with_scale(std::span<const WeightedGroup> groups, std::span<const float> wanted, double scale) const;
  Stored best_stored(std::span<const WeightedGroup> groups, std::span<const float> wanted) const;

  const formats::IqLattice& lattice_;
  const LatticeSearch& search_;
  GridMethod method_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_SCALES_LATTICE_SCALES_H_
