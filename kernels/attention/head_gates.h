// Gates of attention with one value per head; gates by element are in kernels/activation.h.
#ifndef BALLAST_KERNELS_ATTENTION_HEAD_GATES_H_
#define BALLAST_KERNELS_ATTENTION_HEAD_GATES_H_

#include <cstddef>

namespace ballast::kernels {

/// Computes x = x / (1 + exp(-gate)) with one gate for the `size` values of a head: x is [m][heads][size] dense, a row
/// of gates has `heads` values, rows are `gate_stride` floats apart.
void multiply_head_sigmoid(float* x, std::size_t m, std::size_t heads, std::size_t size, const float* gate,
                           std::size_t gate_stride);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_ATTENTION_HEAD_GATES_H_
