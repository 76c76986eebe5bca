// What the codes, factors and minimums of a GGUF's blocks may be.
#ifndef BALLAST_QUANT_ROUNDING_GRIDS_BLOCK_TYPE_H_
#define BALLAST_QUANT_ROUNDING_GRIDS_BLOCK_TYPE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "ballast/tensor.h"
#include "quant/rounding/grids/quant_params.h"

namespace ballast::quant {

/// Values are (code - zero_point) * scale - minimum; a group of columns shares both. Each is an F16 of the group, or an
/// F16 that groups_of_scale groups share times an integer of the group. The scales of lattices are odd multiples; 4-bit
/// floats have few scales.
struct BlockType {
  DType dtype = DType::kQ8_0;
  int qmin = 0;
  int qmax = 0;
  int zero_point = 0;
  std::size_t group_size = 32;
  bool has_minimums = false;
  std::size_t groups_of_scale = 0;  ///< 0: scales are the groups' own
  int factor_low = 0;
  int factor_high = 0;
  int minimum_factor_high = 0;
  const NearestCodes* nearest = nullptr;  ///< as in QuantRange
  std::span<const float> scales{};        ///< all that a group can have, ascending; empty: every F16
  DType scale_type = DType::kF16;         ///< in which kernels take scales
  bool is_lattice = false;                ///< not all combinations of codes exist, see lattice_search.h
};

/// Precondition: one of writable_block_types().
const BlockType& block_type(DType dtype);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_GRIDS_BLOCK_TYPE_H_
