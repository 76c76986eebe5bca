// GGUF's quantized blocks as rows of codes, scales and minimums: what they hold, without another rounding.
#ifndef BALLAST_FILES_GGUF_GGML_ROWS_H_
#define BALLAST_FILES_GGUF_GGML_ROWS_H_

#include <cstddef>
#include <optional>

#include "ballast/tensor.h"
#include "kernels/matrix/quantized_rows.h"

namespace ballast::files {

/// How a matrix of a type's blocks is kept; empty for types whose blocks have no such form. Rows are whole blocks.
std::optional<kernels::QuantizedForm> quantized_form(DType dtype, std::size_t rows, std::size_t cols);

/// One row. Returns whether its scales and minimums are finite.
bool read_quantized_row(DType dtype, const std::byte* blocks, kernels::QuantizedRow& dst);

}  // namespace ballast::files

#endif  // BALLAST_FILES_GGUF_GGML_ROWS_H_
