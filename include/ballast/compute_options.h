// How the floats of a loaded model are multiplied.
#ifndef BALLAST_COMPUTE_OPTIONS_H_
#define BALLAST_COMPUTE_OPTIONS_H_

#include <string_view>

namespace ballast {

/// Implementations of float GEMM: ballast's own tiles, oneDNN's micro-kernels, or the one that is faster on this
/// processor. They give the same bits.
enum class FloatGemmChoice { kFastest, kBallast, kOneDnn };

/// Options of a loaded model. Models in one process may have different ones.
struct ComputeOptions {
  /// Selects what multiplies prompts with weights of F32, F16 and BF16.
  FloatGemmChoice float_gemm = FloatGemmChoice::kFastest;

  /// Multiplies weights of F32, F16 and BF16 with activations, both rounded to BF16, with sums in F32: twice as fast or
  /// more, and less exact. Has no effect on quantized weights.
  bool bf16_products = false;

  bool operator==(const ComputeOptions&) const = default;
};

/// Parses "auto", "ballast" or "onednn". Throws Error listing the implementations that this build and processor have.
FloatGemmChoice parse_float_gemm(std::string_view name);

/// Throws Error if this build or processor lacks what the options need: oneDNN, or BF16 products (oneDNN, and
/// AVX512-BF16 or AMX). Every function that loads a model calls it.
void check_compute_options(const ComputeOptions& options);

}  // namespace ballast

#endif  // BALLAST_COMPUTE_OPTIONS_H_
