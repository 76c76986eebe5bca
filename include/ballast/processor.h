// What the kernels use of the processor: its instruction set, and the implementations of float GEMM.
#ifndef BALLAST_PROCESSOR_H_
#define BALLAST_PROCESSOR_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/compute_options.h"

namespace ballast {

/// The instruction sets that kernels are compiled for and this processor has, the best first, as Highway spells them
/// ("AVX2"); with what kernels use beside it: "_VNNI" where the processor multiplies INT8 in one instruction
/// ("AVX3_VNNI": Cascade Lake, Ice Lake and Zen 4 on, "AVX2_VNNI": with AVX-VNNI), "_AMX", and on ARM "_DOTPROD" and
/// "_I8MM".
std::vector<std::string> simd_targets();

/// The one in use: the best, unless use_simd_target chose.
std::string simd_target();

/// Holds all kernels of the process to an instruction set, for tests and comparisons of speed. It is no option of a
/// model: Highway's dispatch reads one mask of the process in every call, weights are packed for the vectors of the set
/// in use, and a table of functions for each model would cost an indirection in every kernel for what only tests need.
/// Call it before the first model is loaded, from one thread. oneDNN, which has instruction sets of its own, then
/// multiplies only for FloatGemmChoice::kOneDnn. Throws Error listing the sets that there are.
void use_simd_target(std::string_view name);

/// The implementations of float GEMM by name: "ballast", and "onednn" where it is built in, found when it is first
/// needed, and comes to the same bits: with instruction sets that fuse multiplication and addition.
std::vector<std::string> engines();

/// The implementation that multiplies this many tokens at once, or more up to the next choice.
struct EngineChoice {
  std::size_t tokens = 0;
  std::string engine;
  double speed = 1;  ///< of oneDNN as a multiple of ballast's; 1 where it is not built in
};

/// Returns what a choice comes to for prompts of each length. Speeds are timed for a few milliseconds when they are
/// first needed.
std::vector<EngineChoice> engine_choices(FloatGemmChoice choice);

}  // namespace ballast

#endif  // BALLAST_PROCESSOR_H_
