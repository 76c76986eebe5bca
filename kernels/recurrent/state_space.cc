#include "kernels/recurrent/state_space.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrent/state_space.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>
// After highway.h:
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

using StateVector = hn::VFromD<FloatTag>;

/// Processes one or two vectors of columns of the memory, or the `left` last columns in one (0: it is whole). Columns
/// are independent. Even and odd rows have separate sums, so that no sum waits for the previous one.
template <bool kTwo>
void follow_state_columns(const StateSpaceRun& run, std::size_t first, std::size_t left) {
  const FloatTag df;
  const std::size_t second = first + hn::Lanes(df);
  const auto load = [&](const float* row, std::size_t column) HWY_ATTR {
    return left == 0 ? hn::LoadU(df, row + column) : hn::LoadN(df, row + column, left);
  };
  const auto store = [&](StateVector value, float* row, std::size_t column) HWY_ATTR {
    if (left == 0) return hn::StoreU(value, df, row + column);
    hn::StoreN(value, df, row + column, left);
  };
  for (std::size_t t = 0; t < run.tokens; ++t) {
    const float* key = run.keys + t * run.stride;
    const float* query = run.queries + t * run.stride;
    const float* values = run.values + t * run.stride;
    const auto decay = hn::Set(df, run.decays[t * run.gate_stride]);
    const auto step = hn::Set(df, run.steps[t * run.gate_stride]);
    const auto skip = hn::Set(df, run.skip);
    const auto value0 = load(values, first);
    const auto value1 = kTwo ? load(values, second) : hn::Zero(df);
    const auto new0 = hn::Mul(step, value0);
    const auto new1 = hn::Mul(step, value1);
    auto even0 = hn::Mul(skip, value0), even1 = hn::Mul(skip, value1);
    auto odd0 = hn::Zero(df), odd1 = odd0;
    const auto follow_row = [&](std::size_t i, StateVector& sum0, StateVector& sum1) HWY_ATTR {
      float* row = run.memory + i * run.head_size;
      const auto of_key = hn::Set(df, key[i]);
      const auto of_query = hn::Set(df, query[i]);
      const auto row0 = hn::MulAdd(of_key, new0, hn::Mul(decay, load(row, first)));
      store(row0, row, first);
      sum0 = hn::MulAdd(of_query, row0, sum0);
      if constexpr (kTwo) {
        const auto row1 = hn::MulAdd(of_key, new1, hn::Mul(decay, load(row, second)));
        store(row1, row, second);
        sum1 = hn::MulAdd(of_query, row1, sum1);
      }
    };
    std::size_t i = 0;
    for (; i + 2 <= run.state_size; i += 2) {
      follow_row(i, even0, even1);
      follow_row(i + 1, odd0, odd1);
    }
    if (i < run.state_size) follow_row(i, even0, even1);
    float* out = run.out + t * run.out_stride;
    store(hn::Add(even0, odd0), out, first);
    if constexpr (kTwo) store(hn::Add(even1, odd1), out, second);
  }
}

void follow_state_space(const StateSpaceRun& run) {
  const std::size_t lanes = hn::Lanes(FloatTag());
  std::size_t first = 0;
  for (; first + 2 * lanes <= run.head_size; first += 2 * lanes) follow_state_columns<true>(run, first, 0);
  for (; first + lanes <= run.head_size; first += lanes) follow_state_columns<false>(run, first, 0);
  if (first < run.head_size) follow_state_columns<false>(run, first, run.head_size - first);
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(follow_state_space);

void state_space(const StateSpaceRun& run) {
  HWY_DYNAMIC_DISPATCH(follow_state_space)(run);
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
