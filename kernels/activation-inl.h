// The nonlinearities of MLPs on vectors.
#if defined(BALLAST_KERNELS_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_ACTIVATION_INL_H_
#undef BALLAST_KERNELS_ACTIVATION_INL_H_
#else
#define BALLAST_KERNELS_ACTIVATION_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "ballast/activation.h"
#include "kernels/activation.h"
#include "kernels/exp-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

using ActivationTag = hn::ScalableTag<float>;
using ActivationVector = hn::VFromD<ActivationTag>;

/// Returns 1 + exp(-x). Above 88 exp overflows F32, and a quotient by this is 0 to F32's precision anyway.
HWY_INLINE ActivationVector one_plus_exp_neg(ActivationVector x) {
  const ActivationTag df;
  return hn::Add(hn::Set(df, 1.0F), exp_of(df, hn::Neg(x)));
}

struct Silu {
  HWY_INLINE ActivationVector operator()(ActivationVector x) const { return hn::Div(x, one_plus_exp_neg(x)); }
};

/// erf(z) = 1 - (a1 t + ... + a5 t^5) exp(-z^2), t = 1 / (1 + p z), z >= 0: Abramowitz and Stegun, Handbook of
/// Mathematical Functions, 7.1.26, |error| <= 1.5e-7. Halved, it is the normal distribution's upper tail, which a
/// negative x multiplies directly: no digits cancel there.
struct Gelu {
  HWY_INLINE ActivationVector operator()(ActivationVector x) const {
    const ActivationTag df;
    const auto one = hn::Set(df, 1.0F);
    const auto magnitude = hn::Min(hn::Abs(x), hn::Set(df, 13.0F));  // above, the tail is below 1e-37
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
  HWY_INLINE ActivationVector operator()(ActivationVector x) const {
    const ActivationTag df;
    const auto limit = hn::Set(df, 12.0F);  // above, the exponent is above 88, and the cube must not overflow
    const auto z = hn::Max(hn::Min(x, limit), hn::Neg(limit));
    const auto stretch = hn::MulAdd(hn::Mul(z, z), hn::Set(df, 0.044715F), hn::Set(df, 1.0F));
    constexpr float kTwoRootTwoOverPi = 1.5957691216F;
    return hn::Div(x, one_plus_exp_neg(hn::Mul(hn::Mul(z, stretch), hn::Set(df, kTwoRootTwoOverPi))));
  }
};

struct GeluSigmoid {
  HWY_INLINE ActivationVector operator()(ActivationVector x) const {
    return hn::Div(x, one_plus_exp_neg(hn::Mul(x, hn::Set(ActivationTag(), 1.702F))));
  }
};

struct Relu {
  HWY_INLINE ActivationVector operator()(ActivationVector x) const {  // not Max: NaN must stay NaN
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(ActivationTag())), x);
  }
};

struct ReluSquared {
  HWY_INLINE ActivationVector operator()(ActivationVector x) const {
    const ActivationVector positive = Relu()(x);
    return hn::Mul(positive, positive);
  }
};

/// tanh(x) = 2 / (1 + exp(-2x)) - 1
struct Tanh {
  HWY_INLINE ActivationVector operator()(ActivationVector x) const {
    const ActivationTag df;
    const auto two = hn::Set(df, 2.0F);
    const auto result = hn::Sub(hn::Div(two, one_plus_exp_neg(hn::Mul(x, two))), hn::Set(df, 1.0F));
    return hn::IfThenElse(hn::IsNaN(x), x, result);
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

/// Computes dst = f(gate) * up; a null up counts as ones. dst may be either source.
inline void activate_range(Activation activation, const float* gate, const float* up, std::size_t count, float* dst) {
  switch (activation) {
    case Activation::kSilu:
      return activate_values(Silu(), gate, up, count, dst);
    case Activation::kGelu:
      return activate_values(Gelu(), gate, up, count, dst);
    case Activation::kGeluTanh:
      return activate_values(GeluTanh(), gate, up, count, dst);
    case Activation::kGeluSigmoid:
      return activate_values(GeluSigmoid(), gate, up, count, dst);
    case Activation::kRelu:
      return activate_values(Relu(), gate, up, count, dst);
    case Activation::kReluSquared:
      return activate_values(ReluSquared(), gate, up, count, dst);
    case Activation::kTanh:
      return activate_values(Tanh(), gate, up, count, dst);
  }
}

/// Computes the same after limiting the factors; dst may be the gate.
inline void activate_limited_range(Activation activation, const UpLimits& limits, const float* gate, const float* up,
                                   std::size_t count, float* dst) {
  const ActivationTag df;
  const auto most = hn::Set(df, limits.limit), least = hn::Neg(most), offset = hn::Set(df, limits.offset);
  // Not Min and Max: NaN must stay NaN.
  const auto at_most = [&most](ActivationVector x) HWY_ATTR { return hn::IfThenElse(hn::Gt(x, most), most, x); };
  for_vectors(count, [&](auto load, auto store) HWY_ATTR { store(at_most(load(gate)), dst); });
  activate_range(activation, dst, nullptr, count, dst);
  for_vectors(count, [&](auto load, auto store) HWY_ATTR {
    const auto x = at_most(load(up));
    store(hn::Mul(load(dst), hn::Add(hn::IfThenElse(hn::Lt(x, least), least, x), offset)), dst);
  });
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_ACTIVATION_INL_H_
