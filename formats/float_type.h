// Values in floating point as they are stored.
#ifndef BALLAST_FORMATS_FLOAT_TYPE_H_
#define BALLAST_FORMATS_FLOAT_TYPE_H_

#include <cstddef>
#include <span>
#include <vector>

#include "ballast/recipe.h"
#include "ballast/tensor.h"

namespace ballast::formats {

/// The type of weights that have this format; F32 for what goes along with integers.
DType float_dtype(WeightFormat::Kind kind);

/// The format of weights of this type; kF32 for all but kF16 and kBF16.
WeightFormat::Kind float_kind(DType dtype);

/// `dtype` is kF32, kF16 or kBF16; ties round to even.
std::vector<std::byte> encode_floats(std::span<const float> values, DType dtype);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_FLOAT_TYPE_H_
