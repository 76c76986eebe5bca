// Naive implementations in plain loops with sums in F64, with which every kernel is tested. Used only in tests.
#ifndef BALLAST_KERNELS_REFERENCE_REFERENCE_H_
#define BALLAST_KERNELS_REFERENCE_REFERENCE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ballast/quantized.h"
#include "kernels/activation.h"
#include "kernels/attention/attention.h"
#include "kernels/matrix/float_matrix.h"
#include "kernels/matrix/quantized_matrix.h"
#include "kernels/norm.h"
#include "kernels/recurrent/causal_convolution.h"
#include "kernels/recurrent/delta_rule.h"
#include "kernels/recurrent/state_space.h"
#include "kernels/statistics.h"

namespace ballast::kernels::reference {

/// Converts one 16-bit value to F32, and to the nearest 16-bit value, ties to even.
float half_to_float(std::uint16_t bits, FloatType type);
std::uint16_t float_to_half(float value, FloatType type);

/// Returns the value at an index of an array of any type, which need not be aligned.
float read_value(const void* src, FloatType type, std::size_t index);

/// Returns the values of a float matrix, [rows][cols].
std::vector<float> decode(const FloatMatrix& matrix);

/// Returns the values of a quantized matrix, [rows][cols], including outlier columns.
std::vector<float> decode(const QuantizedView& view);

/// Computes dst[i][r] = bias[r] + sum_c src[i][c] * wei[r][c]; wei is [rows][cols].
void matmul(std::span<const float> wei, std::size_t rows, std::size_t cols, const float* src, std::size_t m,
            const float* bias, float* dst, std::size_t dst_stride);

/// Activations quantized as ActivationQuantization says, in their plainest layout.
struct IntegerActivations {
  std::vector<std::int32_t> codes;  ///< [m][cols]
  std::vector<float> scales;        ///< [m][cols]: of each value
};
IntegerActivations quantize(const float* src, std::size_t m, const ActivationQuantization& format);

/// Computes the product with quantized activations: integers exactly, then F64.
void matmul(const QuantizedView& view, const IntegerActivations& activations, const float* src, std::size_t m,
            const float* bias, float* dst, std::size_t dst_stride);

/// Rotates a query or key of one head as INT8 keys are before they are rounded: in F32, every sum of a pair in the
/// kernels' order, so that codes are equal.
std::vector<float> rotate_head(const float* src, std::size_t size);

/// Computes one sequence of attention.
void attention(const AttentionShape& shape, const AttentionSequence& sequence);

void rms_norm(const float* src, std::size_t m, std::size_t size, const NormParameters& parameters, float* dst);
void layer_norm(const float* src, std::size_t m, std::size_t size, const NormParameters& parameters, float* dst);
void rope(float* x, std::size_t m, std::size_t heads, std::size_t head_stride, std::size_t rotary_size,
          std::size_t row_stride, const float* cos, const float* sin);
void causal_convolution(const ConvolutionRun& run);
void delta_rule(const DeltaRun& run);
void state_space(const StateSpaceRun& run);
double activation(Activation kind, double x);
void activate_multiply(Activation kind, const float* gate, const float* up, std::size_t count, float* dst);
void activate_multiply_limited(Activation kind, const UpLimits& limits, const float* gate, const float* up,
                               std::size_t count, float* dst);
void multiply_sigmoid(float* x, std::size_t m, std::size_t size, const float* gate, std::size_t gate_stride);
void multiply_head_sigmoid(float* x, std::size_t m, std::size_t heads, std::size_t size, const float* gate,
                           std::size_t gate_stride);
double log_sum_exp(const float* logits, std::size_t count);
double kl_divergence(const float* p_logits, const float* q_logits, std::size_t count);

}  // namespace ballast::kernels::reference

#endif  // BALLAST_KERNELS_REFERENCE_REFERENCE_H_
