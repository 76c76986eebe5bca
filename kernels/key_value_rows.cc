#include "kernels/key_value_rows.h"

#include "kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/key_value_rows.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>
// After highway.h:
#include "kernels/int8_rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

float quantize_row(const float* src, std::size_t size, std::int8_t* codes) {
  std::int32_t code_sum;  // of no use here
  return quantize_group(src, size, absolute_maximum(src, size), codes, code_sum);
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(quantize_row);

namespace {

void store_row(const float* src, std::size_t row, const WritableRows& dst) {
  char* to = static_cast<char*>(dst.data) + row * dst.size * cache_type_bytes(dst.type);
  if (dst.type == CacheType::kInt8) {
    dst.scales[row] = HWY_DYNAMIC_DISPATCH(quantize_row)(src, dst.size, reinterpret_cast<std::int8_t*>(to));
  } else {
    from_float(src, dst.size, float_type(dst.type), to);
  }
}

}  // namespace

void store_rows(const float* src, std::size_t stride, std::size_t count, std::size_t first, const WritableRows& dst) {
  parallel_ranges(count, threads_for(count * dst.heads * dst.size), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t slot = (first + i) % dst.capacity;
      for (std::size_t head = 0; head < dst.heads; ++head) {
        store_row(src + i * stride + head * dst.size, head * dst.capacity + slot, dst);
      }
    }
  });
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
