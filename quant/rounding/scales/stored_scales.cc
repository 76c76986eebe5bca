#include "quant/rounding/scales/stored_scales.h"

#include "quant/rounding/grids/block_type.h"
#include "quant/rounding/scales/block_scales.h"
#include "quant/rounding/scales/lattice_scales.h"
#include "quant/rounding/scales/row_scales.h"

namespace ballast::quant {

std::unique_ptr<const StoredScales> make_stored_scales(const WeightFormat& format, DType scale_type,
                                                       GridMethod method) {
  if (format.kind == WeightFormat::Kind::kBlocks) {
    if (block_type(format.block_type).is_lattice) return std::make_unique<LatticeScales>(format.block_type, method);
    return std::make_unique<BlockScales>(format.block_type, method);
  }
  if (format.scale_bits == 8) return std::make_unique<RowScales>(format, scale_type, method);
  return nullptr;
}

}  // namespace ballast::quant
