#include "quant/runnable_block.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace ballast::quant {

ActivationRoundings activation_roundings(const Recipe& recipe) {
  return [grouped = recipe.activation_groups](const WorkingLinear& linear) -> ActivationRounding {
    if (linear.activations == Recipe::Activations::kInt8) return {.bits = 8, .scale_per_group = grouped};
    return {};
  };
}

ActivationRounding fine_rounding(const WorkingLinear& /*linear*/) {
  return {};
}

model::Linear runnable_linear(const WorkingLinear& linear, const ActivationRounding& activations) {
  model::Linear result;
  result.name = linear.name;
  result.bias = linear.bias;
  if (linear.quantized) {
    kernels::QuantizedMatrix matrix(linear.quantized->view());
    result.activations = matrix.activation_format(activations.bits, activations.scale_per_group);
    result.weights = std::move(matrix);
  } else {
    model::FloatMatrixHolder holder;
    holder.matrix = {
        .data = linear.values.data(), .type = kernels::FloatType::kF32, .rows = linear.rows, .cols = linear.cols};
    result.weights = std::move(holder);
  }
  return result;
}

model::BlockParts runnable_parts(const WorkingBlock& block, const ModelSpec& spec,
                                 const ActivationRoundings& activations) {
  const auto linear = [&block, activations](model::Part part) {
    const auto it = std::ranges::find(block.linears, part, &WorkingLinear::part);
    assert(it != block.linears.end());
    return runnable_linear(*it, activations(*it));
  };
  const auto norm = [&block, spec](model::Role role) {
    const auto it = std::ranges::find(block.norms, role, &WorkingNorm::role);
    assert(it != block.norms.end());
    const NormSpec kind = model::norm_spec(spec, block.layer.value_or(0), role);
    model::Norm result{.kind = kind.kind, .epsilon = static_cast<float>(kind.epsilon), .gain = it->gain, .bias = {}};
    if (kind.bias) result.bias = it->bias;
    return result;
  };
  const auto vector = [&block](model::Role role) {
    const auto it = std::ranges::find(block.vectors, role, &WorkingVector::role);
    assert(it != block.vectors.end());
    return it->values;
  };
  return {.linear = linear, .norm = norm, .vector = vector};
}

}  // namespace ballast::quant
