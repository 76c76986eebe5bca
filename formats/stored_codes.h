// A matrix of codes as a codec reads it from a checkpoint.
#ifndef BALLAST_FORMATS_STORED_CODES_H_
#define BALLAST_FORMATS_STORED_CODES_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "kernels/matrix/quantized_rows.h"

namespace ballast::formats {

/// A matrix [rows = outputs, cols = inputs], of which both functions read a row from the checkpoint, which must outlive
/// it. They may be called from several threads.
struct StoredCodes {
  std::string type;  ///< as stored: "Q4_K", "GPTQ int4-g128"

  /// The layout that kernels multiply; empty if they cannot multiply these codes.
  std::optional<kernels::CodeLayout> layout;
  bool exact = true;  ///< false: no layout of the kernels has the same values, and read_row rounds them

  /// Writes a row in that layout, and returns whether its values are finite. Set if `layout` is.
  std::function<bool(std::size_t row, kernels::QuantizedRow& dst)> read_row;

  /// Writes the exact values, [cols].
  std::function<void(std::size_t row, float* dst)> decode_row;
};

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_STORED_CODES_H_
