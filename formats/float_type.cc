#include "formats/float_type.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ballast/error.h"
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

// First index whose exponent bits are all ones (infinity or NaN), or count.
template <typename Word>
std::size_t first_not_finite(const std::byte* bytes, std::size_t count, Word exponent) {
  const auto is_bad = [=](std::size_t i) {
    Word word;
    std::memcpy(&word, bytes + i * sizeof word, sizeof word);
    return (word & exponent) == exponent;
  };
  constexpr std::size_t kChunk = 1 << 16;
  std::size_t first = count;
#pragma omp parallel for reduction(min : first)
  for (std::size_t begin = 0; begin < count; begin += kChunk) {
    const std::size_t end = std::min(count, begin + kChunk);
    bool bad = false;
    for (std::size_t i = begin; i < end; ++i) bad |= is_bad(i);  // no early exit: the compiler vectorizes this
    for (std::size_t i = begin; bad && i < std::min(end, first); ++i) {
      if (is_bad(i)) first = i;
    }
  }
  return first;
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

void check_finite(const TensorView& view, const std::string& context) {
  const std::size_t count = view.bytes.size() / dtype_info(view.dtype).block_bytes;
  std::size_t bad = count;
  if (view.dtype == DType::kF32) bad = first_not_finite<std::uint32_t>(view.bytes.data(), count, 0x7F800000);
  if (view.dtype == DType::kF16) bad = first_not_finite<std::uint16_t>(view.bytes.data(), count, 0x7C00);
  if (view.dtype == DType::kBF16) bad = first_not_finite<std::uint16_t>(view.bytes.data(), count, 0x7F80);
  if (bad < count) throw Error(context, "value " + std::to_string(bad) + " is NaN or infinite");
}

}  // namespace ballast::formats
