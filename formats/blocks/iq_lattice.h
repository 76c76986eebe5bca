// Writes GGUF's IQ types: blocks of 256 whose codes are points of a lattice (iq_grids.h). The inverse of iq_blocks.h.
#ifndef BALLAST_FORMATS_BLOCKS_IQ_LATTICE_H_
#define BALLAST_FORMATS_BLOCKS_IQ_LATTICE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "ballast/tensor.h"
#include "kernels/matrix/quantized_rows.h"

namespace ballast::formats {

/// Every point has so many signs, whether its steps are those of one grid point or of two.
inline constexpr std::size_t kCellElements = 8;

/// A type whose weights are scale * unit * factor * step: `scale` is an F16 that 256 elements share, `factor` an odd
/// number from 1 to 31 that a group shares. The steps of kCellElements elements are one grid point of 8 elements, or
/// two of 4, times signs.
struct IqLattice {
  DType dtype;
  std::size_t point_elements;           ///< 4 or 8
  std::span<const std::int8_t> points;  ///< [points][point_elements], positive
  bool even_signs;                      ///< an even number of a cell's elements is negative
  std::size_t group_size;               ///< 16 or 32
  float unit;
  int bits;  ///< of codes: step + middle()

  /// Returns the code of a step of 0, which no point has.
  int middle() const { return 1 << (bits - 1); }
  std::size_t point_count() const { return points.size() / point_elements; }
};

inline constexpr int kLargestIqFactor = 31;

/// Returns the lattice of a type that matrices can be rounded to, or null.
const IqLattice* find_iq_lattice(DType dtype);

/// Returns the layout of rows that are written: codes, a scale for each block, and factors. Kernels cannot multiply it,
/// because it has no unit.
kernels::CodeLayout iq_row_layout(const IqLattice& lattice, std::size_t cols);

/// Writes block `index` of a row with that layout. `block` is zero. Precondition: the codes of each cell are a point of
/// the lattice, and factors are odd.
void write_iq_block(const IqLattice& lattice, const kernels::QuantizedRow& row, std::size_t index,
                    std::span<std::uint8_t> block);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_BLOCKS_IQ_LATTICE_H_
