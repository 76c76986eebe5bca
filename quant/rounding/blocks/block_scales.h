// The scales and minimums that a GGUF's blocks store, in 16 bits and in whole numbers, chosen so that the grids that
// are read back lose least.
#ifndef BALLAST_QUANT_ROUNDING_BLOCKS_BLOCK_SCALES_H_
#define BALLAST_QUANT_ROUNDING_BLOCKS_BLOCK_SCALES_H_

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

  /// Stores what the grids of a row's groups are made of, and replaces the grids by those that are read back. Blocks
  /// must be whole. Grids whose scales are the groups' own must have 16 bits.
  void store(std::span<const WeightedGroup> groups, RowGrids& grids) const;

 private:
  /// Groups that share a scale, with the grids that each wants for itself.
  struct Shared {
    std::span<const WeightedGroup> groups;
    std::span<const QuantParams> wanted;
  };

  /// What such groups store, and what it costs.
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
