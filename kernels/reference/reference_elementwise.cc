#include <algorithm>
#include <cmath>

#include "kernels/reference/reference.h"

namespace ballast::kernels::reference {
namespace {

void write_normalized(const float* src, std::size_t size, double mean, double mean_square,
                      const NormParameters& parameters, float* dst) {
  const double factor = 1.0 / std::sqrt(mean_square + parameters.epsilon);
  for (std::size_t c = 0; c < size; ++c) {
    const double gain = parameters.gain == nullptr ? 1.0 : parameters.gain[c];
    const double bias = parameters.bias == nullptr ? 0.0 : parameters.bias[c];
    dst[c] = static_cast<float>((src[c] - mean) * factor * gain + bias);
  }
}

double mean_square_of(const float* src, std::size_t size, double mean) {
  double squares = 0.0;
  for (std::size_t c = 0; c < size; ++c) squares += (src[c] - mean) * (src[c] - mean);
  return squares / static_cast<double>(size);
}

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

}  // namespace

void rms_norm(const float* src, std::size_t m, std::size_t size, const NormParameters& parameters, float* dst) {
  for (std::size_t i = 0; i < m; ++i, src += size, dst += size) {
    write_normalized(src, size, 0.0, mean_square_of(src, size, 0.0), parameters, dst);
  }
}

void layer_norm(const float* src, std::size_t m, std::size_t size, const NormParameters& parameters, float* dst) {
  for (std::size_t i = 0; i < m; ++i, src += size, dst += size) {
    double mean = 0.0;
    for (std::size_t c = 0; c < size; ++c) mean += src[c];
    mean /= static_cast<double>(size);
    write_normalized(src, size, mean, mean_square_of(src, size, mean), parameters, dst);
  }
}

void rope(float* x, std::size_t m, std::size_t heads, std::size_t head_stride, std::size_t rotary_size,
          std::size_t row_stride, const float* cos, const float* sin) {
  const std::size_t half = rotary_size / 2;
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t h = 0; h < heads; ++h) {
      for (std::size_t j = 0; j < half; ++j) {
        float& low = x[i * row_stride + h * head_stride + j];
        float& high = x[i * row_stride + h * head_stride + j + half];
        const double c = cos[i * half + j], s = sin[i * half + j];
        const double rotated = low * c - high * s;
        high = static_cast<float>(low * s + high * c);
        low = static_cast<float>(rotated);
      }
    }
  }
}

double activation(Activation kind, double x) {
  switch (kind) {
    case Activation::kSilu:
      return x * sigmoid(x);
    case Activation::kGelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::kGeluTanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case Activation::kGeluSigmoid:
      return x * sigmoid(1.702 * x);
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kReluSquared:
      return std::max(x, 0.0) * std::max(x, 0.0);
    case Activation::kTanh:
      return std::tanh(x);
  }
  return x;
}

void activate_multiply(Activation kind, const float* gate, const float* up, std::size_t count, float* dst) {
  for (std::size_t i = 0; i < count; ++i) dst[i] = static_cast<float>(activation(kind, gate[i]) * up[i]);
}

void activate_multiply_limited(Activation kind, const UpLimits& limits, const float* gate, const float* up,
                               std::size_t count, float* dst) {
  for (std::size_t i = 0; i < count; ++i) {
    const double other = std::clamp(double{up[i]}, -double{limits.limit}, double{limits.limit}) + limits.offset;
    dst[i] = static_cast<float>(activation(kind, std::min(gate[i], limits.limit)) * other);
  }
}

void multiply_sigmoid(float* x, std::size_t m, std::size_t size, const float* gate, std::size_t gate_stride) {
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t c = 0; c < size; ++c) {
      float& value = x[i * size + c];
      value = static_cast<float>(value * sigmoid(gate[i * gate_stride + c]));
    }
  }
}

void multiply_head_sigmoid(float* x, std::size_t m, std::size_t heads, std::size_t size, const float* gate,
                           std::size_t gate_stride) {
  for (std::size_t i = 0; i < m * heads * size; ++i) {
    const std::size_t row = i / (heads * size);
    const std::size_t head = i / size % heads;
    x[i] = static_cast<float>(x[i] * sigmoid(gate[row * gate_stride + head]));
  }
}

double log_sum_exp(const float* logits, std::size_t count) {
  const double maximum = *std::max_element(logits, logits + count);
  double sum = 0.0;
  for (std::size_t i = 0; i < count; ++i) sum += std::exp(logits[i] - maximum);
  return maximum + std::log(sum);
}

double kl_divergence(const float* p_logits, const float* q_logits, std::size_t count) {
  const double p_log_sum = log_sum_exp(p_logits, count);
  const double q_log_sum = log_sum_exp(q_logits, count);
  double divergence = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    const double p = p_logits[i] - p_log_sum;
    divergence += std::exp(p) * (p - (q_logits[i] - q_log_sum));
  }
  return divergence;
}

}  // namespace ballast::kernels::reference
