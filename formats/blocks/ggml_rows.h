// Reads GGUF's quantized blocks as rows of codes, scales and minimums.
#ifndef BALLAST_FORMATS_BLOCKS_GGML_ROWS_H_
#define BALLAST_FORMATS_BLOCKS_GGML_ROWS_H_

#include <cstddef>
#include <optional>

#include "ballast/tensor.h"
#include "kernels/matrix/quantized_rows.h"

namespace ballast::formats {

/// Returns the layout that holds a type's blocks exactly; nullopt if there is none. Rows must be whole blocks.
std::optional<kernels::CodeLayout> block_layout(DType dtype, std::size_t rows, std::size_t cols);

/// Returns the layout of one row that write_quantized_row writes: block_layout, or that of a lattice.
kernels::CodeLayout written_layout(DType dtype, std::size_t cols);

/// Reads one row. Returns whether its scales and minimums are finite.
bool read_quantized_row(DType dtype, const std::byte* blocks, kernels::QuantizedRow& dst);

/// Returns the layout of blocks that are rounded again: INT8 in groups of 32.
kernels::CodeLayout rounded_layout(std::size_t rows, std::size_t cols);

/// Rounds one row to nearest. Returns whether its values are finite.
bool round_row(DType dtype, const std::byte* blocks, kernels::QuantizedRow& dst);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_BLOCKS_GGML_ROWS_H_
