#include "model/weights.h"

#include <cassert>

#include "kernels/norm.h"

namespace ballast::model {

std::size_t Linear::rows() const {
  if (const auto* plain = std::get_if<FloatMatrixHolder>(&weights)) return plain->matrix.rows;
  return std::get<kernels::QuantizedMatrix>(weights).rows();
}

std::size_t Linear::cols() const {
  if (const auto* plain = std::get_if<FloatMatrixHolder>(&weights)) return plain->matrix.cols;
  return std::get<kernels::QuantizedMatrix>(weights).cols();
}

std::size_t Linear::bytes() const {
  if (const auto* plain = std::get_if<FloatMatrixHolder>(&weights)) {
    return plain->matrix.rows * plain->matrix.cols * kernels::float_type_bytes(plain->matrix.type);
  }
  return std::get<kernels::QuantizedMatrix>(weights).bytes();
}

void apply(std::span<const LinearOutput> outputs, const float* src, std::size_t m, kernels::Int8Activations& scratch) {
  const kernels::ActivationFormat* quantized_as = nullptr;
  for (const LinearOutput& output : outputs) {
    const Linear& linear = *output.linear;
    const float* bias = linear.bias.empty() ? nullptr : linear.bias.data();
    if (const auto* plain = std::get_if<FloatMatrixHolder>(&linear.weights)) {
      kernels::matmul(plain->matrix, src, m, bias, output.dst, output.stride);
      continue;
    }
    const auto& matrix = std::get<kernels::QuantizedMatrix>(linear.weights);
    if (!linear.activations) {
      matrix.matmul(src, m, bias, output.dst, output.stride);
      continue;
    }
    if (quantized_as == nullptr || *quantized_as != *linear.activations) {
      scratch.quantize(src, m, *linear.activations);
      quantized_as = &*linear.activations;
    }
    matrix.matmul(scratch, m, bias, output.dst, output.stride);
  }
}

void decode_row(const Linear& linear, std::size_t row, float* dst) {
  assert(row < linear.rows());
  if (const auto* plain = std::get_if<FloatMatrixHolder>(&linear.weights)) {
    const kernels::FloatMatrix& matrix = plain->matrix;
    const std::size_t row_bytes = matrix.cols * kernels::float_type_bytes(matrix.type);
    kernels::to_float(static_cast<const std::byte*>(matrix.data) + row * row_bytes, matrix.type, matrix.cols, dst);
    return;
  }
  std::get<kernels::QuantizedMatrix>(linear.weights).decode_row(row, dst);
}

void Norm::apply(const float* src, std::size_t m, float* dst) const {
  const kernels::NormParameters parameters = {
      .gain = gain.data(), .bias = bias.empty() ? nullptr : bias.data(), .epsilon = epsilon};
  const auto normalize = kind == NormSpec::Kind::kRms ? kernels::rms_norm : kernels::layer_norm;
  normalize(src, m, gain.size(), parameters, dst);
}

}  // namespace ballast::model
