#include "kernels/activation.h"

#include <cmath>

#include "kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activation.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>
// After highway.h:
#include "kernels/exp-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

using Tag = hn::ScalableTag<float>;
using Vector = hn::VFromD<Tag>;

/// 1 + exp(-x). Beyond 88 exp leaves F32, and what is divided by this is 0 to F32's precision anyway.
HWY_INLINE Vector one_plus_exp_neg(Vector x) {
  const Tag df;
  return hn::Add(hn::Set(df, 1.0F), exp_of(df, hn::Neg(x)));
}

struct Silu {
  HWY_INLINE Vector operator()(Vector x) const { return hn::Div(x, one_plus_exp_neg(x)); }
};

/// erf(z) = 1 - (a1 t + ... + a5 t^5) exp(-z^2), t = 1 / (1 + p z), z >= 0: Abramowitz and Stegun, Handbook of
/// Mathematical Functions, 7.1.26, |error| <= 1.5e-7. Halved, it is the normal distribution's upper tail, which a
/// negative x multiplies directly: no digits cancel there.
struct Gelu {
  HWY_INLINE Vector operator()(Vector x) const {
    const Tag df;
    const auto one = hn::Set(df, 1.0F);
    const auto magnitude = hn::Min(hn::Abs(x), hn::Set(df, 13.0F));  // beyond, the tail is below 1e-37
    const auto t = hn::Div(one, hn::MulAdd(magnitude, hn::Set(df, 0.3275911F * 0.70710678F), one));
    auto polynomial = hn::MulAdd(t, hn::Set(df, 1.061405429F), hn::Set(df, -1.453152027F));
    polynomial = hn::MulAdd(t, polynomial, hn::Set(df, 1.421413741F));
    polynomial = hn::MulAdd(t, polynomial, hn::Set(df, -0.284496736F));
    polynomial = hn::Mul(t, hn::MulAdd(t, polynomial, hn::Set(df, 0.254829592F)));
    const auto half_magnitude = hn::Mul(magnitude, hn::Set(df, -0.5F));
    const auto tail = hn::Mul(hn::Mul(polynomial, hn::Set(df, 0.5F)), exp_of(df, hn::Mul(half_magnitude, magnitude)));
    return hn::Mul(x, hn::IfThenElse(hn::Lt(x, hn::Zero(df)), tail, hn::Sub(one, tail)));
  }
};

/// x/2 (1 + tanh(u)) = x / (1 + exp(-2u))
struct GeluTanh {
  HWY_INLINE Vector operator()(Vector x) const {
    const Tag df;
    const auto limit = hn::Set(df, 12.0F);  // beyond, the exponent is above 88, and the cube must not overflow
    const auto z = hn::Max(hn::Min(x, limit), hn::Neg(limit));
    const auto stretch = hn::MulAdd(hn::Mul(z, z), hn::Set(df, 0.044715F), hn::Set(df, 1.0F));
    constexpr float kTwoRootTwoOverPi = 1.5957691216F;
    return hn::Div(x, one_plus_exp_neg(hn::Mul(hn::Mul(z, stretch), hn::Set(df, kTwoRootTwoOverPi))));
  }
};

struct Relu {
  HWY_INLINE Vector operator()(Vector x) const {  // not Max: NaN must stay NaN
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(Tag())), x);
  }
};

template <class Function>
HWY_INLINE void activate_values(Function function, const float* gate, const float* up, std::size_t count, float* dst) {
  if (up == nullptr) {
    for_vectors(count, [&](auto load, auto store) HWY_ATTR { store(function(load(gate)), dst); });
  } else {
    for_vectors(count, [&](auto load, auto store) HWY_ATTR { store(hn::Mul(function(load(gate)), load(up)), dst); });
  }
}

/// dst = f(gate) * up; a null up counts as ones.
void activate_range(Activation activation, const float* gate, const float* up, std::size_t count, float* dst) {
  switch (activation) {
    case Activation::kSilu:
      return activate_values(Silu(), gate, up, count, dst);
    case Activation::kGelu:
      return activate_values(Gelu(), gate, up, count, dst);
    case Activation::kGeluTanh:
      return activate_values(GeluTanh(), gate, up, count, dst);
    case Activation::kRelu:
      return activate_values(Relu(), gate, up, count, dst);
  }
}

void multiply_sigmoid_row(float* x, const float* gate, std::size_t size) {
  for_vectors(size, [&](auto load, auto store) HWY_ATTR { store(hn::Div(load(x), one_plus_exp_neg(load(gate))), x); });
}

void multiply_row(float* x, float factor, std::size_t size) {
  const auto scale = hn::Set(Tag(), factor);
  for_vectors(size, [&](auto load, auto store) HWY_ATTR { store(hn::Mul(load(x), scale), x); });
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(activate_range);
HWY_EXPORT(multiply_sigmoid_row);
HWY_EXPORT(multiply_row);

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

void multiply_sigmoid(float* x, std::size_t m, std::size_t size, const float* gate, std::size_t gate_stride) {
  const auto run = HWY_DYNAMIC_POINTER(multiply_sigmoid_row);
  parallel_ranges(m, threads_for(m * size * kOperationsOfExp), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) run(x + i * size, gate + i * gate_stride, size);
  });
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
