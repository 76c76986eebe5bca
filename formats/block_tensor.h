// A matrix in a GGUF's quantized blocks, with its memory.
#ifndef BALLAST_FORMATS_BLOCK_TENSOR_H_
#define BALLAST_FORMATS_BLOCK_TENSOR_H_

#include <cstddef>
#include <vector>

#include "ballast/tensor.h"
#include "kernels/matrix/quantized_matrix.h"

namespace ballast::formats {

struct BlockTensor {
  DType dtype = DType::kQ8_0;
  std::size_t rows = 0;
  std::size_t cols = 0;           ///< whole blocks
  std::vector<std::byte> blocks;  ///< [rows][row_bytes()]

  std::size_t row_bytes() const {
    const DTypeInfo& info = dtype_info(dtype);
    return cols / info.block_elements * info.block_bytes;
  }
};

/// Returns the same codes in the layout of the kernels.
kernels::QuantizedMatrix packed_blocks(const BlockTensor& tensor);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_BLOCK_TENSOR_H_
