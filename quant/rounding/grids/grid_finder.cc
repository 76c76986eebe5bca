#include "quant/rounding/grids/grid_finder.h"

#include "quant/rounding/blocks/block_grids.h"
#include "quant/rounding/blocks/block_type.h"
#include "quant/rounding/grids/affine_grids.h"
#include "quant/rounding/grids/integer_grids.h"
#include "quant/rounding/grids/nonlinear_grids.h"

namespace ballast::quant {

std::unique_ptr<GridFinder> make_grid_finder(const WeightFormat& format, DType scale_type, GridMethod method,
                                             const GridColumns& columns) {
  if (format.kind == WeightFormat::Kind::kBlocks) {
    return std::make_unique<BlockGridFinder>(format.block_type, method, columns);
  }
  if (format.kind == WeightFormat::Kind::kAffine && format.bits < 8) {
    return std::make_unique<AffineGridFinder>(format, scale_type, method, columns);
  }
  if (format.kind == WeightFormat::Kind::kNonlinear) {
    return std::make_unique<NonlinearGridFinder>(format, scale_type, method, columns);
  }
  return std::make_unique<IntegerGridFinder>(format, scale_type, method, columns);
}

std::size_t grid_group_size(const WeightFormat& format, std::size_t cols) {
  if (format.kind == WeightFormat::Kind::kBlocks) return block_type(format.block_type).group_size;
  return format.group_size == 0 ? cols : format.group_size;
}

std::size_t activation_group_size(const WeightFormat& format) {
  // llama.cpp rounds what blocks read in groups as large as a block.
  if (format.kind == WeightFormat::Kind::kBlocks) return dtype_info(format.block_type).block_elements;
  return format.group_size;
}

}  // namespace ballast::quant
