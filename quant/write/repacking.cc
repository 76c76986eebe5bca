#include "quant/write/repacking.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <vector>

#include "kernels/matrix/bit_packing.h"
#include "quant/rounding/grid_finder.h"
#include "quant/rounding/grids/half_float.h"
#include "quant/rounding/rounding.h"

namespace ballast::quant {

formats::CodeMatrix repacked(const QuantizedView& matrix, const WeightFormat& format, DType half_type) {
  assert(matrix.outlier_columns.empty());
  formats::CodeMatrix result(matrix.rows, matrix.cols, format, {}, half_type);
  const std::size_t group_size = grid_group_size(format, matrix.cols);
  const std::size_t groups = (matrix.cols + group_size - 1) / group_size;
  const std::size_t row_bytes = packed_row_bytes(matrix.cols, matrix.bits);
#pragma omp parallel
  {
    std::vector<std::uint8_t> codes(matrix.cols);
    RowGrids grids;
    grids.groups.resize(groups);
    grids.block_scales.resize(groups);
#pragma omp for
    for (std::size_t row = 0; row < matrix.rows; ++row) {
      kernels::unpack_codes(matrix.codes.data() + row * row_bytes, matrix.bits, codes);
      const std::vector<QuantParams> own = grids_of_row(matrix, row);
      for (std::size_t g = 0; g < groups; ++g) {
        grids.groups[g] = own[g * group_size / matrix.group_size];
        grids.block_scales[g] = half_bits(grids.groups[g].scale, DType::kF16);
      }
      store_row({}, codes, grids, row, result);
    }
  }
  return result;
}

}  // namespace ballast::quant
