// The scales and minimums that a GGUF's blocks store (16-bit floats and integers), chosen to minimize the error of the
// grids that are read back.
#ifndef BALLAST_QUANT_ROUNDING_SCALES_BLOCK_SCALES_H_
#define BALLAST_QUANT_ROUNDING_SCALES_BLOCK_SCALES_H_

#include <cstddef>
#include <span>
#include <vector>

#include "ballast/tensor.h"
#include "quant/rounding/grids/block_search.h"
#include "quant/rounding/grids/block_type.h"
#include "quant/rounding/grids/grid_search.h"
#include "quant/rounding/grids/quant_params.h"
#include "quant/rounding/scales/stored_scales.h"

namespace ballast::quant {

class BlockScales final : public StoredScales {
 public:
  BlockScales(DType dtype, GridMethod method);

  /// Where each group has its own scale, the grids must already be in 16 bits.
  void store(std::span<const WeightedGroup> groups, RowGrids& grids) const override;

 private:
  /// Groups that share a scale, with the grid that is best for each alone.
  struct Shared {
    std::span<const WeightedGroup> groups;
    std::span<const QuantParams> wanted;
  };

  /// The stored values of such groups, and their squared error.
  struct Stored {
    float scale = 0;
    float minimum = 0;
    std::vector<int> factors;
    std::vector<int> minimum_factors;
    float error = 0;
  };

  QuantParams grid_of(const Stored& stored, std::size_t group) const;
  Stored best_stored(const Shared& shared) const;

  /// Returns the factors with the smallest error for these scales, which are rounded to 16 bits first.
  Stored with_scales(const Shared& shared, double scale, double minimum) const;
  void choose_factors(const Shared& shared, std::size_t group, Stored& stored) const;

  /// Returns the scales with the smallest error for the codes that `from` gives.
  Stored refitted(const Shared& shared, const Stored& from) const;

  void store_shared_scales(std::span<const WeightedGroup> groups, RowGrids& grids) const;

  const BlockType& type_;
  QuantRange range_;
  GridMethod method_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_SCALES_BLOCK_SCALES_H_
