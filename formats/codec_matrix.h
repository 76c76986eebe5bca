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
  std::optional<kernels::CodeLayout> form;  ///< a kernel layout with exactly the same values, if there is one
  kernels::QuantizedRowReader read_row;     ///< set if `form` is
  std::function<void(std::size_t row, float* dst)> decode_row;
};

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_CODEC_MATRIX_H_
