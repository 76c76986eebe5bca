// GGUF's quantized blocks as rows of codes, scales and minimums.
#ifndef BALLAST_FILES_GGUF_GGML_ROWS_H_
#define BALLAST_FILES_GGUF_GGML_ROWS_H_

#include <cstddef>
#include <optional>

#include "ballast/tensor.h"
#include "kernels/matrix/quantized_rows.h"

namespace ballast::files {

/// The form that holds all that a type's blocks hold, exactly; empty where there is none. Rows are whole blocks.
std::optional<kernels::CodeLayout> quantized_form(DType dtype, std::size_t rows, std::size_t cols);

/// One row. Returns whether its scales and minimums are finite.
bool read_quantized_row(DType dtype, const std::byte* blocks, kernels::QuantizedRow& dst);

/// INT8 in groups of 32: what the blocks of any type become by another rounding.
kernels::CodeLayout rounded_form(std::size_t rows, std::size_t cols);

/// One row, rounded to nearest. Returns whether its values are finite.
bool round_row(DType dtype, const std::byte* blocks, kernels::QuantizedRow& dst);

}  // namespace ballast::files

#endif  // BALLAST_FILES_GGUF_GGML_ROWS_H_
