// Rounding a matrix to integers.
#ifndef BALLAST_QUANT_ROUNDING_H_
#define BALLAST_QUANT_ROUNDING_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "ballast/recipe.h"
#include "model/quantized_tensor.h"

namespace ballast::quant {

/// The 16-bit type in which values of this magnitude are stored: F16, or BF16 where F16 would overflow or lose digits.
DType half_type_for(float absmax);

/// values [rows][cols] to the nearest codes of `format` (kInteger), each group on its own; ties to even. Columns listed
/// in `outlier_columns` are left out of the groups and kept in 16 bits. `absmax` is a bound on |values| that picks the
/// 16-bit types. Parallel over rows; the result does not depend on the number of threads.
model::QuantizedTensor round_to_nearest(std::span<const float> values, std::size_t rows, std::size_t cols,
                                        const WeightFormat& format, std::span<const std::int32_t> outlier_columns,
                                        float absmax);

/// The same tensor with all sizes and types in place but without its values, for plans.
model::QuantizedTensor empty_quantized(std::size_t rows, std::size_t cols, const WeightFormat& format,
                                       std::span<const std::int32_t> outlier_columns, float absmax);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_H_
