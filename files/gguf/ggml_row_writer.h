// Rows of codes, scales and minimums as GGUF's quantized blocks: the inverse of ggml_rows.h.
#ifndef BALLAST_FILES_GGUF_GGML_ROW_WRITER_H_
#define BALLAST_FILES_GGUF_GGML_ROW_WRITER_H_

#include <cstddef>

#include "ballast/tensor.h"
#include "kernels/matrix/quantized_rows.h"

namespace ballast::files {

/// Whether rows can be written in blocks of this type.
bool writes_blocks(DType dtype);

/// Writes one row that has the form of its type (quantized_form), so that read_quantized_row gives it back.
/// Precondition: its codes and factors are some that the type has.
void write_quantized_row(DType dtype, const kernels::QuantizedRow& row, std::byte* blocks);

}  // namespace ballast::files

#endif  // BALLAST_FILES_GGUF_GGML_ROW_WRITER_H_
