// Element types, views of tensors, and the owning tensor.
#ifndef BALLAST_TENSOR_H_
#define BALLAST_TENSOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/error.h"

namespace ballast {

/// Types of tensors in a checkpoint. Those from kQ8_0 on are GGUF's blocks of quantized values (32, 64 or 256 per
/// block).
enum class DType : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kF64,
  kI64,
  kI32,
  kI16,
  kI8,
  kU32,
  kU8,
  kBool,
  kF8_E4M3,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ1_S,
  kIQ1_M,
  kIQ2_XXS,
  kIQ2_XS,
  kIQ2_S,
  kIQ3_XXS,
  kIQ3_S,
  kIQ4_NL,
  kIQ4_XS,
  kTQ1_0,
  kTQ2_0,
  kMXFP4,
  kNVFP4,
};

/// A type's name in files and messages, and its layout: `block_elements` elements take `block_bytes`.
struct DTypeInfo {
  DType dtype;
  std::string_view name;  ///< as in safetensors and GGUF
  std::size_t block_elements;
  std::size_t block_bytes;
};

inline constexpr std::array<DTypeInfo, 35> kDTypes{{
    {DType::kF32, "F32", 1, 4},
    {DType::kF16, "F16", 1, 2},
    {DType::kBF16, "BF16", 1, 2},
    {DType::kF64, "F64", 1, 8},
    {DType::kI64, "I64", 1, 8},
    {DType::kI32, "I32", 1, 4},
    {DType::kI16, "I16", 1, 2},
    {DType::kI8, "I8", 1, 1},
    {DType::kU32, "U32", 1, 4},
    {DType::kU8, "U8", 1, 1},
    {DType::kBool, "BOOL", 1, 1},
    {DType::kF8_E4M3, "F8_E4M3", 1, 1},
    {DType::kQ8_0, "Q8_0", 32, 34},
    {DType::kQ4_0, "Q4_0", 32, 18},
    {DType::kQ4_1, "Q4_1", 32, 20},
    {DType::kQ5_0, "Q5_0", 32, 22},
    {DType::kQ5_1, "Q5_1", 32, 24},
    {DType::kQ2_K, "Q2_K", 256, 84},
    {DType::kQ3_K, "Q3_K", 256, 110},
    {DType::kQ4_K, "Q4_K", 256, 144},
    {DType::kQ5_K, "Q5_K", 256, 176},
    {DType::kQ6_K, "Q6_K", 256, 210},
    {DType::kIQ1_S, "IQ1_S", 256, 50},
    {DType::kIQ1_M, "IQ1_M", 256, 56},
    {DType::kIQ2_XXS, "IQ2_XXS", 256, 66},
    {DType::kIQ2_XS, "IQ2_XS", 256, 74},
    {DType::kIQ2_S, "IQ2_S", 256, 82},
    {DType::kIQ3_XXS, "IQ3_XXS", 256, 98},
    {DType::kIQ3_S, "IQ3_S", 256, 110},
    {DType::kIQ4_NL, "IQ4_NL", 32, 18},
    {DType::kIQ4_XS, "IQ4_XS", 256, 136},
    {DType::kTQ1_0, "TQ1_0", 256, 54},
    {DType::kTQ2_0, "TQ2_0", 256, 66},
    {DType::kMXFP4, "MXFP4", 32, 17},
    {DType::kNVFP4, "NVFP4", 64, 36},
}};

constexpr const DTypeInfo& dtype_info(DType dtype) {
  return kDTypes[static_cast<std::size_t>(dtype)];
}

using Shape = std::vector<std::int64_t>;

/// Returns "[576, 1536]".
inline std::string shape_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

/// Returns the number of elements. Throws Error for a negative size or if the product does not fit 63 bits.
inline std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) {
      throw Error("shape " + shape_string(shape), "not a size that memory can hold");
    }
  }
  return count;
}

/// A view of a tensor, usually a part of a mapped file. Row-major; bytes need not be aligned.
struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> bytes;
};

/// An owning F32 tensor, row-major.
struct Tensor {
  Shape shape;
  std::vector<float> values;
};

}  // namespace ballast

#endif  // BALLAST_TENSOR_H_
