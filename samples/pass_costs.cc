#include "samples/pass_costs.h"

#include <chrono>
#include <vector>

#include "kernels/matrix/float_matrix.h"
#include "model/forward/forward.h"
#include "model/mixer/mixer_kind.h"
#include "model/structure/block_structure.h"

namespace ballast::samples {

double multiply_adds_per_second(std::size_t m, bool in_bf16) {
  constexpr std::size_t kSize = 1024;
  constexpr auto kEnough = std::chrono::milliseconds(150);
  const std::vector<float> source(m * kSize, 0.5F);
  const std::vector<std::uint16_t> weights(kSize * kSize, 0x3800);  // F16 for 0.5
  std::vector<float> product(m * kSize);
  const kernels::FloatMatrix matrix{weights.data(), kernels::FloatType::kF16, kSize, kSize};
  const kernels::FloatOutput output[] = {{.matrix = &matrix, .dst = product.data(), .stride = kSize}};
  const auto multiply = [&] { kernels::matmul(output, source.data(), m, {.bf16_products = in_bf16}); };
  multiply();  // starts the threads
  const auto begin = std::chrono::steady_clock::now();
  std::chrono::duration<double> taken{};
  double done = 0;
  do {
    multiply();
    done += static_cast<double>(m) * kSize * kSize;
    taken = std::chrono::steady_clock::now() - begin;
  } while (taken < kEnough);
  return done / taken.count();
}

BlockCosts block_costs(const ModelSpec& spec, std::size_t layer, const model::BlockWeights& block) {
  BlockCosts costs;
  double written = 2.0 * static_cast<double>(spec.hidden_size);  // the outputs of the two norms
  model::for_each_linear(block, [&](const model::Linear& linear, model::Role role) {
    const double share = model::token_share(spec.layers[layer], role);
    costs.multiply_adds += share * static_cast<double>(linear.rows()) * static_cast<double>(linear.cols());
    costs.weight_bytes += linear.bytes();
    written += share * static_cast<double>(linear.rows());
  });
  costs.activation_bytes = static_cast<std::uint64_t>(written * sizeof(float));
  costs.cache_bytes = model::cache_shape(spec.layers[layer]).size() * sizeof(float);
  return costs;
}

double attention_multiply_adds(const ModelSpec& spec, std::size_t layer, std::size_t length) {
  const AttentionSpec* attention = spec.layers[layer].attention();
  if (attention == nullptr) return 0;
  const double seen = static_cast<double>(length) * (spec.causal ? 0.5 : 1.0);
  const model::CacheShape cache = model::cache_shape(spec.layers[model::cache_layer(spec, layer)]);
  return seen * static_cast<double>(attention->heads * (cache.key_size + cache.value_size));
}

}  // namespace ballast::samples
