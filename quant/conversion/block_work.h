// The amount of work for the blocks of a model in a conversion.
#ifndef BALLAST_QUANT_CONVERSION_BLOCK_WORK_H_
#define BALLAST_QUANT_CONVERSION_BLOCK_WORK_H_

#include <cstdint>

#include "ballast/spec.h"

namespace ballast::quant {

/// Sums over the matrices of all blocks.
struct BlockWork {
  double weights = 0;
  double matrices = 0;            ///< that a probe rounds alone
  double products = 0;            ///< multiply-adds per token of a forward pass, without attention's
  double attention = 0;           ///< the same of attention, per token of the sample
  double skipped_products = 0;    ///< the part of these that is skipped when inputs before down are measured
  double moments = 0;             ///< multiply-adds per token
  double factors = 0;             ///< multiply-adds
  double compensation = 0;        ///< multiply-adds of GPTQ
  double drift = 0;               ///< multiply-adds per token
  double correction = 0;          ///< multiply-adds, of drift
  double sampled_weights = 0;     ///< on which formats are compared
  bool experts = false;           ///< some block has some
  std::uint64_t block_bytes = 0;  ///< F32 values of the largest block, experts as integers: they are loaded by turns
  std::uint64_t moment_bytes = 0;
  std::uint64_t drift_bytes = 0;
  std::uint64_t factor_bytes = 0;
  std::uint64_t matrix_bytes = 0;  ///< F32 values of the largest matrix
};

/// Adds up the work of all blocks, from the spec alone.
BlockWork block_work(const ModelSpec& spec);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_BLOCK_WORK_H_
