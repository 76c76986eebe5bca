// The processor's features that kernels use: its instruction set, and the implementations of float GEMM.
#ifndef BALLAST_PROCESSOR_H_
#define BALLAST_PROCESSOR_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/compute_options.h"

namespace ballast {

/// Returns the instruction sets that kernels are compiled for and this processor has, the best first, with Highway's
/// names ("AVX2") and suffixes for instructions that kernels use in addition: "_VNNI" if the processor multiplies INT8
/// in one instruction ("AVX3_VNNI": Cascade Lake, Ice Lake and Zen 4 on; "AVX2_VNNI": with AVX-VNNI), "_AMX", and on
/// ARM "_DOTPROD" and "_I8MM".
std::vector<std::string> simd_targets();

/// Returns the instruction set in use: the best one, unless use_simd_target selected another.
std::string simd_target();

/// Restricts all kernels of the process to an instruction set, for tests and comparisons of speed. It is not an option
/// of a model: Highway's dispatch reads one mask of the process in every call, weights are packed for the vectors of
/// the set in use, and a table of functions for each model would cost an indirection in every kernel that only tests
/// need. Must be called before the first model is loaded, from one thread. oneDNN, which has instruction sets of its
/// own, then multiplies only for FloatGemmChoice::kOneDnn. Throws Error listing the available sets.
void use_simd_target(std::string_view name);

/// Returns the names of the available implementations of float GEMM: "ballast", and "onednn" if it is built in,
/// installed, and gives the same bits as ballast's tiles, which needs an instruction set that fuses multiplication and
/// addition.
std::vector<std::string> engines();

/// The implementation that multiplies `tokens` tokens at once, or more, up to the next entry's number.
struct EngineChoice {
  std::size_t tokens = 0;
  std::string engine;
  double speed = 1;  ///< of oneDNN as a multiple of ballast's; 1 if it is not built in
};

/// Returns which implementation a choice selects for prompts of each length. Speeds are measured for a few milliseconds
/// when they are first needed.
std::vector<EngineChoice> engine_choices(FloatGemmChoice choice);

}  // namespace ballast

#endif  // BALLAST_PROCESSOR_H_
