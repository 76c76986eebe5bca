#include "formats/float_type.h"

#include "kernels/matrix/float_matrix.h"

namespace ballast::formats {

namespace {

kernels::FloatType float_type(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return kernels::FloatType::kF16;
    case DType::kBF16:
      return kernels::FloatType::kBF16;
    default:
      return kernels::FloatType::kF32;
  }
}

}  // namespace

DType float_dtype(WeightFormat::Kind kind) {
  switch (kind) {
    case WeightFormat::Kind::kF16:
      return DType::kF16;
    case WeightFormat::Kind::kBF16:
      return DType::kBF16;
    default:
      return DType::kF32;
  }
}

WeightFormat::Kind float_kind(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return WeightFormat::Kind::kF16;
    case DType::kBF16:
      return WeightFormat::Kind::kBF16;
    default:
      return WeightFormat::Kind::kF32;
  }
}

std::vector<std::byte> encode_floats(std::span<const float> values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * dtype_info(dtype).block_bytes);
  kernels::from_float(values.data(), values.size(), float_type(dtype), bytes.data());
  return bytes;
}

}  // namespace ballast::formats
