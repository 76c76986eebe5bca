// Writes rows of codes, scales and minimums as GGUF's quantized blocks: the inverse of ggml_rows.h.
#ifndef BALLAST_FORMATS_BLOCKS_GGML_ROW_WRITER_H_
#define BALLAST_FORMATS_BLOCKS_GGML_ROW_WRITER_H_

#include <cstddef>

#include "ballast/tensor.h"
#include "kernels/matrix/quantized_rows.h"

namespace ballast::formats {

/// Writes one row with the layout of its type (written_layout), so that read_quantized_row returns it, or, if the type
/// has no layout that kernels multiply, decode_ggml_blocks its values. Preconditions: the type is one of
/// writable_block_types(); codes and factors are valid for it.
void write_quantized_row(DType dtype, const kernels::QuantizedRow& row, std::byte* blocks);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_BLOCKS_GGML_ROW_WRITER_H_
