#include "formats/decode_floats.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>

#include "formats/blocks/ggml_blocks.h"
#include "kernels/matrix/float_matrix.h"
#include "kernels/statistics.h"

namespace ballast::formats {
namespace {

// Elements that a thread decodes at once: whole blocks of every type, and few enough to be checked in cache.
constexpr std::size_t kDecodedAtOnce = std::size_t{16} * 1024;

// Elements after which memory that was read may be released.
constexpr std::size_t kDecodedPart = 1024 * kDecodedAtOnce;

std::optional<kernels::FloatType> plain_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return kernels::FloatType::kF32;
    case DType::kF16:
      return kernels::FloatType::kF16;
    case DType::kBF16:
      return kernels::FloatType::kBF16;
    default:
      return std::nullopt;
  }
}

void round_doubles(const std::byte* src, std::size_t count, float* dst) {
  for (std::size_t i = 0; i < count; ++i) {
    double value = 0;
    std::memcpy(&value, src + i * sizeof(value), sizeof(value));
    dst[i] = static_cast<float>(value);
  }
}

// Returns "[3, 17]" for an element's index.
std::string position_string(std::size_t index, const Shape& shape) {
  Shape position(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    position[axis] = static_cast<std::int64_t>(index) % shape[axis];
    index /= static_cast<std::size_t>(shape[axis]);
  }
  return shape_string(position);
}

}  // namespace

void decode_floats(const TensorView& view, std::string_view context, float* dst,
                   const std::function<void()>& after_part) {
  const DTypeInfo& info = dtype_info(view.dtype);
  const std::optional<kernels::FloatType> type = plain_type(view.dtype);
  const bool blocks = info.block_elements > 1;
  if (!type && !blocks && view.dtype != DType::kF64) {
    throw Error(context, "holds " + std::string(info.name) + ", where floating values are expected");
  }
  const auto count = static_cast<std::size_t>(element_count(view.shape));
  assert(view.bytes.size() == count / info.block_elements * info.block_bytes);

  std::size_t first_bad = count;
  for (std::size_t part = 0; part < count; part += kDecodedPart) {
    const std::size_t end = std::min(count, part + kDecodedPart);
#pragma omp parallel for schedule(static) reduction(min : first_bad)
    for (std::size_t start = part; start < end; start += kDecodedAtOnce) {
      const std::size_t chunk = std::min(kDecodedAtOnce, end - start);
      const std::byte* src = view.bytes.data() + start / info.block_elements * info.block_bytes;
      if (type) {
        kernels::to_float(src, *type, chunk, dst + start);
      } else if (!blocks) {
        round_doubles(src, chunk, dst + start);
      } else {
        decode_ggml_blocks(view.dtype, src, chunk / info.block_elements, dst + start);
      }
      if (!kernels::all_finite(dst + start, chunk)) {
        const float* bad = std::find_if(dst + start, dst + start + chunk, [](float x) { return !std::isfinite(x); });
        first_bad = std::min(first_bad, static_cast<std::size_t>(bad - dst));
      }
    }
    if (after_part && end < count) after_part();
  }
  if (first_bad < count) {
    throw Error(context, "element " + position_string(first_bad, view.shape) + " is " +
                             (std::isnan(dst[first_bad]) ? "not a number" : "infinite") + "; the weights are damaged");
  }
}

}  // namespace ballast::formats
