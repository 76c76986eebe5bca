#include "kernels/recurrent/delta_rule.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrent/delta_rule.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>
// After highway.h:
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

using DeltaVector = hn::VFromD<FloatTag>;

float dot_product(const float* a, const float* b, std::size_t size) {
  auto sum = hn::Zero(FloatTag());
  std::size_t i = 0;
  for (; i + hn::Lanes(FloatTag()) <= size; i += hn::Lanes(FloatTag())) {
    sum = hn::MulAdd(hn::LoadU(FloatTag(), a + i), hn::LoadU(FloatTag(), b + i), sum);
  }
  if (i < size) sum = hn::MulAdd(hn::LoadN(FloatTag(), a + i, size - i), hn::LoadN(FloatTag(), b + i, size - i), sum);
  return hn::ReduceSum(FloatTag(), sum);
}

/// Processes one or two vectors of columns of the memory, or the `left` last columns in one (0: it is whole). Columns
/// are independent. The memory is read once per token: while it is updated for one token, the next one is looked up in
/// it.
template <bool kTwo>
void follow_columns(const DeltaRun& run, std::size_t first, std::size_t left) {
  const FloatTag df;
  const std::size_t second = first + hn::Lanes(df);
  const auto load = [&](const float* row, std::size_t column) HWY_ATTR {
    return left == 0 ? hn::LoadU(df, row + column) : hn::LoadN(df, row + column, left);
  };
  const auto store = [&](DeltaVector value, float* row, std::size_t column) HWY_ATTR {
    if (left == 0) return hn::StoreU(value, df, row + column);
    hn::StoreN(value, df, row + column, left);
  };
  // The memory's values for a token's key and its query.
  auto of_key0 = hn::Zero(df), of_key1 = of_key0, of_query0 = of_key0, of_query1 = of_key0;
  const auto look_up = [&](DeltaVector row0, DeltaVector row1, std::size_t t, std::size_t i) HWY_ATTR {
    const auto key = hn::Set(df, run.keys[t * run.stride + i]);
    const auto query = hn::Set(df, run.queries[t * run.stride + i]);
    of_key0 = hn::MulAdd(key, row0, of_key0);
    of_query0 = hn::MulAdd(query, row0, of_query0);
    if constexpr (!kTwo) return;
    of_key1 = hn::MulAdd(key, row1, of_key1);
    of_query1 = hn::MulAdd(query, row1, of_query1);
  };
  for (std::size_t i = 0; i < run.key_size; ++i) {
    const float* row = run.memory + i * run.value_size;
    look_up(load(row, first), kTwo ? load(row, second) : hn::Zero(df), 0, i);
  }
  for (std::size_t t = 0; t < run.tokens; ++t) {
    const float* key = run.keys + t * run.stride;
    const auto overlap = hn::Set(df, dot_product(key, run.queries + t * run.stride, run.key_size));
    const auto decay = hn::Set(df, run.decays[t * run.gate_stride]);
    const auto strength = hn::Set(df, run.strengths[t * run.gate_stride]);
    const auto change_at = [&](DeltaVector of_key, DeltaVector of_query, std::size_t column) HWY_ATTR {
      const auto value = load(run.values + t * run.stride, column);
      const auto change = hn::Mul(strength, hn::NegMulAdd(decay, of_key, value));
      store(hn::MulAdd(overlap, change, hn::Mul(decay, of_query)), run.out + t * run.out_stride, column);
      return change;
    };
    const auto change0 = change_at(of_key0, of_query0, first);
    const auto change1 = kTwo ? change_at(of_key1, of_query1, second) : hn::Zero(df);
    of_key0 = of_key1 = of_query0 = of_query1 = hn::Zero(df);
    const std::size_t next = HWY_MIN(t + 1, run.tokens - 1);
    for (std::size_t i = 0; i < run.key_size; ++i) {
      float* row = run.memory + i * run.value_size;
      const auto of_row = hn::Set(df, key[i]);
      const auto row0 = hn::MulAdd(of_row, change0, hn::Mul(decay, load(row, first)));
      store(row0, row, first);
      auto row1 = hn::Zero(df);
      if constexpr (kTwo) {
        row1 = hn::MulAdd(of_row, change1, hn::Mul(decay, load(row, second)));
        store(row1, row, second);
      }
      look_up(row0, row1, next, i);
    }
  }
}

void follow_delta_rule(const DeltaRun& run) {
  if (run.tokens == 0) return;
  const std::size_t lanes = hn::Lanes(FloatTag());
  std::size_t first = 0;
  for (; first + 2 * lanes <= run.value_size; first += 2 * lanes) follow_columns<true>(run, first, 0);
  for (; first + lanes <= run.value_size; first += lanes) follow_columns<false>(run, first, 0);
  if (first < run.value_size) follow_columns<false>(run, first, run.value_size - first);
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(follow_delta_rule);

void delta_rule(const DeltaRun& run) {
  HWY_DYNAMIC_DISPATCH(follow_delta_rule)(run);
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
