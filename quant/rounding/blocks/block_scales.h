 The scales and minimums that a GGUF's blocks: chooses the stored 16-bit values and integers so that the grids as read back lose least.
#ifndef BALLAST_QUANT_ROUNDING_BLOCKS_BLOCK_GRIDS_H_
#define BALLAST_QUANT_ROUNDING_BLOCKS_BLOCK_GRIDS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "ballast/tensor.h"
#include "quant/rounding/blocks/block_search.h"
#include "quant/rounding/blocks/block_type.h"
#include "quant/rounding/grids/grid_search.h"
#include "quant/rounding/quant_params.h"

namespace ballast::quant {

class BlockScales {
 public:
  BlockScales(DType dtype, GridMethod method);

  /// The values are whole blocks.
  void store(std::span<const WeightedGroup> groups, RowGrids& grids) const;

 private:
  /// Groups that share a scale, with their individual best grids.
  struct Shared {
    std::span<const WeightedGroup> groups;
    std::span<const QuantParams> wanted;
  };

  /// The stored values of such groups, and their cost.
  struct Stored {
    float scale = 0;
    float minimum = 0;
    std::vector<int> factors;
    std::vector<int> minimum_factors;
    float error = 0;
  };

  QuantParams grid_of(const Stored& stored, std::size_t group) const;
  Stored best_stored(const Shared& shared) const;

  /// The factors of least error with these scales, which are rounded to 16 bits first.
  Stored with_scales(const Shared& shared, double scale, double minimum) const;
  void choose_factors(const Shared& shared, std::size_t group, Stored& stored) const;

  /// The scales of least error for the codes that these give.
  Stored refitted(const Shared& shared, const Stored& from) const;

  void store_shared_scales(std::span<const WeightedGroup> groups, RowGrids& grids) const;

  const BlockType& type_;
  QuantRange range_;
  GridMethod method_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_BLOCKS_BLOCK_SCALES_H_
