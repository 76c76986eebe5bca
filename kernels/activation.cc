#include "kernels/activation.h"

#include "kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activation.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>
// After highway.h:
#include "kernels/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

void multiply_sigmoid_row(float* x, const float* gate, std::size_t size) {
  for_vectors(size, [&](auto load, auto store) HWY_ATTR { store(hn::Div(load(x), one_plus_exp_neg(load(gate))), x); });
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(activate_range);
HWY_EXPORT(activate_limited_range);
HWY_EXPORT(multiply_sigmoid_row);

namespace {

constexpr std::size_t kOperationsOfExp = 8;

void activate_all(Activation activation, const float* gate, const float* up, std::size_t count, float* dst) {
  const auto run = HWY_DYNAMIC_POINTER(activate_range);
  parallel_ranges(count, threads_for(count * kOperationsOfExp), [&](std::size_t begin, std::size_t end) {
    run(activation, gate + begin, up == nullptr ? nullptr : up + begin, end - begin, dst + begin);
  });
}

}  // namespace

void activate(Activation activation, float* x, std::size_t count) {
  activate_all(activation, x, nullptr, count, x);
}

void activate_multiply(Activation activation, const float* gate, const float* up, std::size_t count, float* dst) {
  activate_all(activation, gate, up, count, dst);
}

void activate_multiply_limited(Activation activation, const UpLimits& limits, const float* gate, const float* up,
                               std::size_t count, float* dst) {
  const auto run = HWY_DYNAMIC_POINTER(activate_limited_range);
  parallel_ranges(count, threads_for(count * kOperationsOfExp), [&](std::size_t begin, std::size_t end) {
    run(activation, limits, gate + begin, up + begin, end - begin, dst + begin);
  });
}

void multiply_sigmoid(float* x, std::size_t m, std::size_t size, const float* gate, std::size_t gate_stride) {
  const auto run = HWY_DYNAMIC_POINTER(multiply_sigmoid_row);
  parallel_ranges(m, threads_for(m * size * kOperationsOfExp), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) run(x + i * size, gate + i * gate_stride, size);
  });
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
