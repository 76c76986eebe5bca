#include "kernels/grid_errors.h"

#include <cassert>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/grid_errors.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

using Vector = hn::VFromD<FloatTag>;

struct WholeSteps {
  HWY_INLINE Vector nearest(Vector exact) const { return hn::Round(exact); }
};

struct SomeSteps {
  HWY_INLINE Vector nearest(Vector exact) const {
    const hn::RebindToSigned<FloatTag> di32;
    const auto halves = hn::Mul(hn::Sub(exact, hn::Set(FloatTag(), steps.first)), hn::Set(FloatTag(), 2.0F));
    return hn::GatherIndex(FloatTag(), steps.entries, hn::ConvertTo(di32, halves));
  }

  NearestSteps steps;
};

template <class Steps>
void grid_errors_of(const float* values, const float* weights, std::size_t count, std::span<const StepGrid> grids,
                    float* errors, const Steps& steps) {
  const FloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  for (std::size_t g = 0; g < grids.size(); ++g) {
    const StepGrid& grid = grids[g];
    const Vector scale = hn::Set(df, grid.scale);
    const Vector inverse = hn::Set(df, grid.inverse);
    const Vector minimum = hn::Set(df, grid.minimum);
    const Vector low = hn::Set(df, grid.low);
    const Vector high = hn::Set(df, grid.high);
    // Returns sum + weight * (value - nearest)^2.
    const auto add_error = [&](Vector value, Vector weight, Vector sum) HWY_ATTR {
      const Vector exact = hn::Mul(hn::Add(value, minimum), inverse);
      const Vector step = steps.nearest(hn::Min(hn::Max(exact, low), high));
      const Vector difference = hn::Sub(value, hn::MulSub(step, scale, minimum));
      return hn::MulAdd(hn::Mul(weight, difference), difference, sum);
    };
    Vector sum0 = hn::Zero(df);
    Vector sum1 = hn::Zero(df);
    std::size_t i = 0;
    for (; i + 2 * lanes <= count; i += 2 * lanes) {
      sum0 = add_error(hn::LoadU(df, values + i), hn::LoadU(df, weights + i), sum0);
      sum1 = add_error(hn::LoadU(df, values + i + lanes), hn::LoadU(df, weights + i + lanes), sum1);
    }
    for (; i < count; i += lanes) {
      // Lanes past the end have weight 0.
      const std::size_t valid = HWY_MIN(lanes, count - i);
      sum0 = add_error(hn::LoadN(df, values + i, valid), hn::LoadN(df, weights + i, valid), sum0);
    }
    errors[g] = hn::ReduceSum(df, hn::Add(sum0, sum1));
  }
}

void grid_errors(const float* values, const float* weights, std::size_t count, std::span<const StepGrid> grids,
                 float* errors, const NearestSteps& nearest) {
  if (nearest.entries == nullptr) {
    grid_errors_of(values, weights, count, grids, errors, WholeSteps());
  } else {
    grid_errors_of(values, weights, count, grids, errors, SomeSteps{nearest});
  }
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(grid_errors);

void grid_errors(std::span<const float> values, std::span<const float> weights, std::span<const StepGrid> grids,
                 std::span<float> errors, const NearestSteps& nearest) {
  assert(weights.size() == values.size());
  assert(errors.size() == grids.size());
  HWY_DYNAMIC_DISPATCH(grid_errors)(values.data(), weights.data(), values.size(), grids, errors.data(), nearest);
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
