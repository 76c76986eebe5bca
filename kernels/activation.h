// The MLP's nonlinearities, alone and multiplied by a second factor, and the gates of gated attention.
#ifndef BALLAST_KERNELS_ACTIVATION_H_
#define BALLAST_KERNELS_ACTIVATION_H_

#include <cstddef>
#include <limits>

#include "ballast/activation.h"

namespace ballast::kernels {

/// Computes x = f(x) for `count` values; GELU to 1e-6 max(1, |x|).
void activate(Activation activation, float* x, std::size_t count);

/// Computes dst = f(gate) * up for `count` values. dst may be either source.
void activate_multiply(Activation activation, const float* gate, const float* up, std::size_t count, float* dst);

/// Limits applied to the factors before the product: the gate is at most `limit`, the other factor between -limit and
/// limit, and then `offset` is added to the other.
struct UpLimits {
  float limit = std::numeric_limits<float>::infinity();
  float offset = 0.0F;
};

/// Computes the same after the limits; dst may be the gate.
void activate_multiply_limited(Activation activation, const UpLimits& limits, const float* gate, const float* up,
                               std::size_t count, float* dst);

/// Computes x = x / (1 + exp(-gate)) elementwise: x is [m][size] dense, gate has rows `gate_stride` floats apart.
void multiply_sigmoid(float* x, std::size_t m, std::size_t size, const float* gate, std::size_t gate_stride);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_ACTIVATION_H_
