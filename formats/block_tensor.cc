#include "formats/block_tensor.h"

#include "files/gguf/ggml_rows.h"

namespace ballast::formats {

kernels::QuantizedMatrix packed_blocks(const BlockTensor& tensor) {
  return {*files::quantized_form(tensor.dtype, tensor.rows, tensor.cols),
          [&](std::size_t row, kernels::QuantizedRow& dst) {
            files::read_quantized_row(tensor.dtype, tensor.blocks.data() + row * tensor.row_bytes(), dst);
          }};
}

}  // namespace ballast::formats
