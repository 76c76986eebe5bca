// Converts an integer matrix to the layout of another format.
#ifndef BALLAST_QUANT_WRITE_REPACKING_H_
#define BALLAST_QUANT_WRITE_REPACKING_H_

#include "ballast/quantized.h"
#include "ballast/recipe.h"
#include "ballast/tensor.h"
#include "formats/code_matrix.h"

namespace ballast::quant {

/// The same codes with the scales of the groups that they come from. What they mean stays the same where the format's
/// groups are parts of the matrix's, its zero points the same, and `half_type` has its scales. `format` is one of
/// integers, MLX's groups, or blocks whose groups have scales of their own and no minimums. Without outlier columns.
formats::CodeMatrix repacked(const QuantizedView& matrix, const WeightFormat& format, DType half_type);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_WRITE_REPACKING_H_
