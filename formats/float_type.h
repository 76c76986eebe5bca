// Conversion of values to the floating-point types that are stored.
#ifndef BALLAST_FORMATS_FLOAT_TYPE_H_
#define BALLAST_FORMATS_FLOAT_TYPE_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ballast/recipe.h"
#include "ballast/tensor.h"

namespace ballast::formats {

/// Returns the type of weights in this format; F32 for the parts of a quantized matrix that stay in floating point.
DType float_dtype(WeightFormat::Kind kind);

/// Returns the format of weights of this type; kF32 for all types except kF16 and kBF16.
WeightFormat::Kind float_kind(DType dtype);

/// Returns the values encoded as `dtype` (kF32, kF16 or kBF16); ties round to even.
std::vector<std::byte> encode_floats(std::span<const float> values, DType dtype);

/// Throws Error naming the first value of an F32, F16 or BF16 tensor that is not finite.
void check_finite(const TensorView& view, const std::string& context);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_FLOAT_TYPE_H_
