// A matrix of codes as a codec reads it from a checkpoint.
#ifndef BALLAST_FORMATS_CODEC_MATRIX_H_
#define BALLAST_FORMATS_CODEC_MATRIX_H_

#include <cstddef>
#include <functional>
#include <optional>

#include "kernels/matrix/quantized_rows.h"

namespace ballast::formats {

/// A matrix [rows = outputs, cols = inputs] whose scales were read and are finite. It reads from the checkpoint, which
/// must outlive it. Both functions may be called from several threads.
struct CodecMatrix {
  std::optional<kernels::CodeLayout> form;  ///< a layout of kernels that holds the same values exactly; else none
  kernels::QuantizedRowReader read_row;     ///< only where there is a form
  std::function<void(std::size_t row, float* dst)> decode_row;
};

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_CODEC_MATRIX_H_
