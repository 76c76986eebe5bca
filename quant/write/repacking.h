// Converts an integer matrix to the layout of another format.
#ifndef BALLAST_QUANT_WRITE_REPACKING_H_
#define BALLAST_QUANT_WRITE_REPACKING_H_

#include "ballast/quantized.h"
#include "ballast/recipe.h"
#include "ballast/tensor.h"
#include "formats/code_matrix.h"

namespace ballast::quant {

/// Returns the same codes with the scales of their groups. The values stay the same if the format's groups are parts of
/// the matrix's, its zero points are the same, and `half_type` holds its scales. `format` is an integer format, MLX's
/// groups, or blocks whose groups have their own scales and no minimums. Without outlier columns.
formats::CodeMatrix repacked(const QuantizedView& matrix, const WeightFormat& format, DType half_type);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_WRITE_REPACKING_H_
