// What a forward pass costs, for forecasts of a job's time and memory.
#ifndef BALLAST_JOBS_COSTS_H_
#define BALLAST_JOBS_COSTS_H_

#include <cstddef>
#include <cstdint>

#include "ballast/spec.h"
#include "model/weights.h"

namespace ballast::jobs {

/// Multiply-adds per second of float products of `m` rows on all threads, measured in a fraction of a second;
/// `in_bf16`: of matmul_bf16, which needs kernels::multiplies_bf16().
double multiply_adds_per_second(std::size_t m, bool in_bf16 = false);

/// One block's share of a forward pass.
struct BlockCosts {
  double multiply_adds = 0;            ///< per token, attention's scores and sums apart
  std::uint64_t weight_bytes = 0;      ///< as loaded
  std::uint64_t activation_bytes = 0;  ///< per token of a batch
  std::uint64_t cache_bytes = 0;       ///< per token, in F32
};

BlockCosts block_costs(const ModelSpec& spec, std::size_t layer, const model::BlockWeights& block);

/// Multiply-adds of attention per token, in sequences of `length` tokens, of one block.
double attention_multiply_adds(const ModelSpec& spec, std::size_t layer, std::size_t length);

}  // namespace ballast::jobs

#endif  // BALLAST_JOBS_COSTS_H_
