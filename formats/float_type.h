// Floating-point values as stored.
#ifndef BALLAST_QUANT_WRITE_FLOAT_TYPE_H_
#define BALLAST_QUANT_WRITE_FLOAT_TYPE_H_

#include <cstddef>
#include <span>
#include <vector>

#include "ballast/recipe.h"
#include "ballast/tensor.h"

namespace ballast::formats {

/// Returns the type of weights with this format; F32 for values that accompany integers.
DType float_dtype(WeightFormat::Kind kind);

/// The format of weights of this type; kF32 for all but kF16 and kBF16.
WeightFormat::Kind float_kind(DType dtype);

/// `dtype` is kF32, kF16 or kBF16; ties round to even.
std::vector<std::byte> encode_floats(std::span<const float> values, DType dtype);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_FLOAT_TYPE_H_
