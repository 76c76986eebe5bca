// Decoders of GGUF's quantized blocks to floats.
#ifndef BALLAST_FORMATS_BLOCKS_GGML_BLOCKS_H_
#define BALLAST_FORMATS_BLOCKS_GGML_BLOCKS_H_

#include <cstddef>

#include "ballast/tensor.h"

namespace ballast::formats {

/// Decodes `blocks` consecutive blocks; dst holds blocks * dtype_info(dtype).block_elements floats. Exact: the products
/// of a 16-bit scale, a 6-bit scale and a code fit a float's 24 bits; differences of two such products (Q2_K, Q4_K,
/// Q5_K) are rounded once. Single-threaded. Layouts follow the descriptions of ggml's formats (ggml-common.h of
/// llama.cpp names the fields).
void decode_ggml_blocks(DType dtype, const std::byte* src, std::size_t blocks, float* dst);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_BLOCKS_GGML_BLOCKS_H_
