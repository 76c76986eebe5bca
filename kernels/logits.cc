#include "kernels/logits.h"

#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/logits.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>
// After highway.h:
#include <hwy/contrib/math/math-inl.h>

#include "kernels/exp-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

using Tag = hn::ScalableTag<float>;
using Vector = hn::VFromD<Tag>;
using DoubleTag = hn::Repartition<double, Tag>;
using DoubleVector = hn::VFromD<DoubleTag>;

float maximum(const float* HWY_RESTRICT src, std::size_t count) {
  const Tag df;
  const std::size_t lanes = hn::Lanes(df);
  const auto lowest = hn::Set(df, -std::numeric_limits<float>::infinity());
  auto max = lowest;
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) max = hn::Max(max, hn::LoadU(df, src + i));
  if (i < count) {
    max = hn::Max(max, hn::IfThenElse(hn::FirstN(df, count - i), hn::LoadN(df, src + i, count - i), lowest));
  }
  return hn::ReduceMax(df, max);
}

/// Returns exp(src[i] - maximum) of a whole vector, or of `left` values followed by zeros.
HWY_INLINE Vector exponentials(const float* src, Vector shift, std::size_t left) {
  const Tag df;
  if (left >= hn::Lanes(df)) return hn::Exp(df, hn::Sub(hn::LoadU(df, src), shift));
  return hn::IfThenElseZero(hn::FirstN(df, left), hn::Exp(df, hn::Sub(hn::LoadN(df, src, left), shift)));
}

HWY_INLINE void add_to(Vector v, DoubleVector& low, DoubleVector& high) {
  const DoubleTag dd;
  low = hn::Add(low, hn::PromoteLowerTo(dd, v));
  high = hn::Add(high, hn::PromoteUpperTo(dd, v));
}

double log_sum_exp(const float* logits, std::size_t count) {
  const Tag df;
  const DoubleTag dd;
  const float max = maximum(logits, count);
  const auto shift = hn::Set(df, max);
  auto low = hn::Zero(dd), high = low;
  for (std::size_t i = 0; i < count; i += hn::Lanes(df)) {
    add_to(exponentials(logits + i, shift, count - i), low, high);
  }
  return static_cast<double>(max) + std::log(hn::ReduceSum(dd, hn::Add(low, high)));
}

double kl_divergence(const float* p_logits, const float* q_logits, std::size_t count) {
  const Tag df;
  const DoubleTag dd;
  const std::size_t lanes = hn::Lanes(df);
  const float p_max = maximum(p_logits, count);
  const float q_max = maximum(q_logits, count);
  const auto p_shift = hn::Set(df, p_max);
  const auto q_shift = hn::Set(df, q_max);
  auto p_low = hn::Zero(dd), p_high = p_low;
  auto q_low = p_low, q_high = p_low;
  auto cross_low = p_low, cross_high = p_low;  // sum of e^p (p - q), both relative to their maxima
  for (std::size_t i = 0; i < count; i += lanes) {
    const std::size_t left = count - i;
    const auto p = exponentials(p_logits + i, p_shift, left);
    add_to(p, p_low, p_high);
    add_to(exponentials(q_logits + i, q_shift, left), q_low, q_high);
    const auto p_logit = left >= lanes ? hn::LoadU(df, p_logits + i) : hn::LoadN(df, p_logits + i, left);
    const auto q_logit = left >= lanes ? hn::LoadU(df, q_logits + i) : hn::LoadN(df, q_logits + i, left);
    const auto difference = hn::Sub(hn::Sub(p_logit, p_shift), hn::Sub(q_logit, q_shift));
    cross_low = hn::MulAdd(hn::PromoteLowerTo(dd, p), hn::PromoteLowerTo(dd, difference), cross_low);
    cross_high = hn::MulAdd(hn::PromoteUpperTo(dd, p), hn::PromoteUpperTo(dd, difference), cross_high);
  }
  const double p_sum = hn::ReduceSum(dd, hn::Add(p_low, p_high));
  const double q_sum = hn::ReduceSum(dd, hn::Add(q_low, q_high));
  const double cross = hn::ReduceSum(dd, hn::Add(cross_low, cross_high));
  return HWY_MAX(0.0, cross / p_sum - std::log(p_sum / q_sum));
}

std::size_t argmax(const float* values, std::size_t count) {
  const Tag df;
  const std::size_t lanes = hn::Lanes(df);
  const float max = maximum(values, count);
  const auto wanted = hn::Set(df, max);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const std::intptr_t lane = hn::FindFirstTrue(df, hn::Eq(hn::LoadU(df, values + i), wanted));
    if (lane >= 0) return i + static_cast<std::size_t>(lane);
  }
  for (; i < count; ++i) {
    if (values[i] == max) return i;
  }
  return 0;
}

/// Computes a block of sum_weights.
double sum_block(const float* HWY_RESTRICT logits, std::size_t count, float largest, float scale,
                 float* HWY_RESTRICT weights) {
  const Tag df;
  const std::size_t lanes = hn::Lanes(df);
  // If a difference overflows F32, a scale of 0 would give NaN.
  const auto lowest = hn::Set(df, std::numeric_limits<float>::lowest());
  const auto smallest = hn::Set(df, -87.0F);
  const auto weights_of = [&](Vector logit) HWY_ATTR {
    const auto distance = hn::Max(hn::Sub(logit, hn::Set(df, largest)), lowest);
    const auto x = hn::Mul(distance, hn::Set(df, scale));
    return hn::IfThenElseZero(hn::Ge(x, smallest), exp_of(df, x));
  };
  auto sum = hn::Zero(df);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto weight = weights_of(hn::LoadU(df, logits + i));
    hn::StoreU(weight, df, weights + i);
    sum = hn::Add(sum, weight);
  }
  if (i < count) {
    const auto weight = weights_of(hn::LoadN(df, logits + i, count - i));
    hn::StoreN(weight, df, weights + i, count - i);
    sum = hn::Add(sum, hn::IfThenElseZero(hn::FirstN(df, count - i), weight));
  }
  return static_cast<double>(hn::ReduceSum(df, sum));
}

double sum_weights(const float* logits, std::size_t count, float largest, float scale, float* weights, double* sums) {
  double total = 0;
  for (std::size_t i = 0; i < count; i += kWeightBlock) {
    *sums = sum_block(logits + i, HWY_MIN(kWeightBlock, count - i), largest, scale, weights + i);
    total += *sums++;
  }
  return total;
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(log_sum_exp);
HWY_EXPORT(kl_divergence);
HWY_EXPORT(argmax);
HWY_EXPORT(sum_weights);

double log_sum_exp(const float* logits, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(log_sum_exp)(logits, count);
}

double kl_divergence(const float* p_logits, const float* q_logits, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(kl_divergence)(p_logits, q_logits, count);
}

double sum_weights(const float* logits, std::size_t count, float largest, float scale, float* weights, double* sums) {
  return HWY_DYNAMIC_DISPATCH(sum_weights)(logits, count, largest, scale, weights, sums);
}

std::size_t argmax(const float* values, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(argmax)(values, count);
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
