// The costs of a forward pass, for forecasts of a job's time and memory.
#ifndef BALLAST_SAMPLES_PASS_COSTS_H_
#define BALLAST_SAMPLES_PASS_COSTS_H_

#include <cstddef>
#include <cstdint>

#include "ballast/spec.h"
#include "model/block/weights.h"

namespace ballast::samples {

/// Measures the multiply-adds per second of float products of `m` rows on all threads, in a fraction of a second.
/// `in_bf16`: with ComputeOptions::bf16_products, which needs kernels::multiplies_bf16().
double multiply_adds_per_second(std::size_t m, bool in_bf16 = false);

/// The cost of one block in a forward pass.
struct BlockCosts {
  double multiply_adds = 0;            ///< per token, without attention's scores and sums
  std::uint64_t weight_bytes = 0;      ///< as loaded
  std::uint64_t activation_bytes = 0;  ///< per token of a batch
  std::uint64_t cache_bytes = 0;       ///< per token, in F32
};

BlockCosts block_costs(const ModelSpec& spec, std::size_t layer, const model::BlockWeights& block);

/// Returns the multiply-adds of attention per token of one block, in sequences of `length` tokens.
double attention_multiply_adds(const ModelSpec& spec, std::size_t layer, std::size_t length);

}  // namespace ballast::samples

#endif  // BALLAST_SAMPLES_PASS_COSTS_H_
