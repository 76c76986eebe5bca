#include "quant/block/runnable_block.h"

#include <algorithm>
#include <cassert>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/float_gemm.h"
#include "kernels/parallel.h"

namespace ballast::quant {

namespace {

/// Experts whose values are loaded on demand.
class LoadedExperts : public model::ExpertStore {
 public:
  LoadedExperts(const MlpSpec& mlp, std::function<model::Linear(model::Part)> linear) : mlp_(mlp) {
    parts_.linear = std::move(linear);
  }

  void count(const WorkingLinear& linear) { bytes_ += linear.rows * linear.cols * sizeof(float); }

  std::size_t most_at_once() const override {
    constexpr std::size_t kBytes = std::size_t{1} << 27;
    return std::max<std::size_t>(1, kBytes * mlp_.experts->count / std::max<std::size_t>(1, bytes_));
  }

  std::vector<std::shared_ptr<const model::MlpWeights>> get(std::span<const std::size_t> experts) const override {
    std::vector<std::shared_ptr<const model::MlpWeights>> weights(experts.size());
    kernels::TaskFailure failure;
    kernels::parallel_tasks(experts.size(), kernels::available_threads(), [&](std::size_t i, std::size_t) {
      failure.keep(i, [&] {
        weights[i] = std::make_shared<const model::MlpWeights>(model::assemble_expert(mlp_, parts_, experts[i]));
      });
    });
    failure.rethrow();
    return weights;
  }

 private:
  MlpSpec mlp_;
  model::BlockParts parts_;
  std::size_t bytes_ = 0;  ///< of all experts in F32
};

/// Returns null if the block's experts are in memory, or if there are none.
std::shared_ptr<const model::ExpertStore> experts_of(const WorkingBlock& block, const ModelSpec& spec,
                                                     const std::function<model::Linear(model::Part)>& linear) {
  const auto is_loaded = [](const WorkingLinear& candidate) {
    return is_routed_expert(candidate.part.role) && candidate.load != nullptr && !candidate.quantized;
  };
  if (!block.layer || std::ranges::none_of(block.linears, is_loaded)) return nullptr;
  auto experts = std::make_shared<LoadedExperts>(spec.layers[*block.layer].mlp, linear);
  for (const WorkingLinear& candidate : block.linears) {
    if (is_routed_expert(candidate.part.role)) experts->count(candidate);
  }
  return experts;
}

}  // namespace

ActivationRoundings activation_roundings(const Recipe& recipe) {
  return [grouped = recipe.activation_groups](const WorkingLinear& linear) -> ActivationRounding {
    if (linear.activations == ActivationType::kInt8) return {.type = ActivationType::kInt8, .scale_per_group = grouped};
    return {};
  };
}

ActivationRounding run_with_int16(const WorkingLinear& /*linear*/) {
  return {};
}

// A block has too many experts to decode all of them.
ActivationRounding run_decoded(const WorkingLinear& linear) {
  return {.type = is_routed_expert(linear.part.role) ? ActivationType::kInt16 : ActivationType::kFloat};
}

ActivationRoundings rounding_over_tokens(std::size_t tokens) {
  constexpr std::size_t kMany = 2048;
  const bool bf16 = tokens >= kMany && kernels::multiplies_bf16();
  return [bf16](const WorkingLinear&) -> ActivationRounding { return {.bf16_products = bf16}; };
}

ActivationRoundings activation_roundings_over_tokens(const Recipe& recipe, std::size_t tokens) {
  return [own = activation_roundings(recipe), measured = rounding_over_tokens(tokens)](const WorkingLinear& linear) {
    ActivationRounding rounding = own(linear);
    if (linear.activations == ActivationType::kInt8) return rounding;
    rounding.type = run_decoded(linear).type;
    rounding.bf16_products = measured(linear).bf16_products;
    return rounding;
  };
}

model::Linear runnable_linear(const WorkingLinear& linear, const ActivationRounding& activations,
                              const ComputeOptions& compute) {
  model::Linear result;
  result.part = linear.part;
  result.name = linear.name;
  result.bias = linear.bias;
  if (linear.quantized && activations.type != ActivationType::kFloat) {
    kernels::QuantizedMatrix matrix = linear.quantized->packed();
    result.activations = matrix.activation_quantization(activations.type, activations.scale_per_group);
    result.weights = std::move(matrix);
  } else {
    model::FloatMatrixHolder holder;
    holder.compute = compute;
    if (linear.quantized) {
      holder.owned = linear.quantized->decoded();
    } else if (linear.load != nullptr) {
      holder.owned = linear.loaded();
    }
    holder.matrix = {.data = holder.owned.empty() ? linear.values.data() : holder.owned.data(),
                     .type = kernels::FloatType::kF32,
                     .rows = linear.rows,
                     .cols = linear.cols};
    if (activations.bf16_products) holder.compute.bf16_products = true;
    result.weights = std::move(holder);
  }
  return result;
}

namespace {

/// Returns a linear of the rows of several, which read the same input.
model::Linear joined_rows(std::vector<model::Linear> ranges) {
  model::Linear result;
  result.part = ranges.front().part;
  result.name = ranges.front().name;
  const auto is_quantized = [](const model::Linear& range) {
    return std::holds_alternative<kernels::QuantizedMatrix>(range.weights);
  };
  if (std::ranges::all_of(ranges, is_quantized)) {
    std::vector<kernels::QuantizedMatrix> matrices;
    for (model::Linear& range : ranges) {
      matrices.push_back(std::get<kernels::QuantizedMatrix>(std::move(range.weights)));
    }
    result.activations = ranges.front().activations;
    result.weights = kernels::QuantizedMatrix(std::move(matrices));
    return result;
  }
  const std::size_t cols = ranges.front().cols();
  model::FloatMatrixHolder holder;
  std::size_t rows = 0;
  for (const model::Linear& range : ranges) {
    const auto* floats = std::get_if<model::FloatMatrixHolder>(&range.weights);
    if (floats != nullptr) holder.compute = floats->compute;
    const std::size_t before = rows;
    rows += range.rows();
    if (floats != nullptr && floats->matrix.data == nullptr) continue;  // the table of a model that only makes logits
    holder.owned.resize(rows * cols);
#pragma omp parallel for
    for (std::size_t row = before; row < rows; ++row) {
      model::decode_row(range, row - before, holder.owned.data() + row * cols);
    }
  }
  holder.matrix = {.data = holder.owned.empty() ? nullptr : holder.owned.data(),
                   .type = kernels::FloatType::kF32,
                   .rows = rows,
                   .cols = cols};
  result.weights = std::move(holder);
  return result;
}

}  // namespace

model::BlockParts runnable_parts(const WorkingBlock& block, const ModelSpec& spec,
                                 const ActivationRoundings& activations) {
  const auto linear = [&block, activations](model::Part part) {
    const auto it = std::ranges::find(block.linears, part, &WorkingLinear::part);
    assert(it != block.linears.end());
    if (!is_vocabulary(part.role)) return runnable_linear(*it, activations(*it), block.compute);
    std::vector<model::Linear> ranges;
    for (const WorkingLinear& range : block.linears) {
      if (range.part.role == part.role) ranges.push_back(runnable_linear(range, activations(range), block.compute));
    }
    return ranges.size() == 1 ? std::move(ranges.front()) : joined_rows(std::move(ranges));
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
  return {.linear = linear, .norm = norm, .vector = vector, .experts = experts_of(block, spec, linear)};
}

std::shared_ptr<const model::Embedding> runnable_embedding(const WorkingBlock& front, const ModelSpec& spec,
                                                           const ActivationRoundings& activations) {
  model::BlockParts parts = runnable_parts(front, spec, activations);
  if (spec.token_inputs) {
    parts.linear = [view = std::move(parts.linear)](model::Part part) { return model::in_own_memory(view(part)); };
  }
  return std::make_shared<const model::Embedding>(spec, parts);
}

}  // namespace ballast::quant
