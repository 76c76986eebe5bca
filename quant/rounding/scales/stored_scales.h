// Fits the grids of a row to the scales that a format stores.
#ifndef BALLAST_QUANT_ROUNDING_SCALES_STORED_SCALES_H_
#define BALLAST_QUANT_ROUNDING_SCALES_STORED_SCALES_H_

#include <memory>
#include <span>

#include "ballast/recipe.h"
#include "ballast/tensor.h"
#include "quant/rounding/grids/grid_search.h"
#include "quant/rounding/grids/quant_params.h"

namespace ballast::quant {

/// A way to store scales that groups share.
class StoredScales {
 public:
  StoredScales() = default;
  StoredScales(const StoredScales&) = delete;
  StoredScales& operator=(const StoredScales&) = delete;
  virtual ~StoredScales() = default;

  /// Stores the scales and minimums of a row's groups, and replaces the grids, each of which is the best for its group
  /// alone, by those that are read back. Blocks must be whole.
  virtual void store(std::span<const WeightedGroup> groups, RowGrids& grids) const = 0;
};

/// Returns the way of a format that quantizes; null: each group's scale is stored as it is. scale_type: kF16 or kBF16,
/// for ballast's formats.
std::unique_ptr<const StoredScales> make_stored_scales(const WeightFormat& format, DType scale_type, GridMethod method);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_SCALES_STORED_SCALES_H_
