#include "kernels/attention/head_gates.h"

#include "kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/head_gates.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>
// After highway.h:
#include "kernels/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

void multiply_head_sigmoid_row(float* x, const float* gate, std::size_t heads, std::size_t size) {
  for (std::size_t head = 0; head < heads; ++head, x += size) {
    const auto divisor = one_plus_exp_neg(hn::Set(ActivationTag(), gate[head]));
    for_vectors(size, [&](auto load, auto store) HWY_ATTR { store(hn::Div(load(x), divisor), x); });
  }
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(multiply_head_sigmoid_row);

void multiply_head_sigmoid(float* x, std::size_t m, std::size_t heads, std::size_t size, const float* gate,
                           std::size_t gate_stride) {
  constexpr std::size_t kOperationsOfExp = 8;
  const auto run = HWY_DYNAMIC_POINTER(multiply_head_sigmoid_row);
  const std::size_t operations = m * heads * (size + kOperationsOfExp);
  parallel_ranges(m, threads_for(operations), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) run(x + i * heads * size, gate + i * gate_stride, heads, size);
  });
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
