// What the kernels use of the processor: its instruction set, and who multiplies floats.
#ifndef BALLAST_PROCESSOR_H_
#define BALLAST_PROCESSOR_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ballast {

// What is chosen here holds for all models. Choose before the first one is loaded, from one thread.

/// The instruction sets that kernels are compiled for and this processor has, the best first, as Highway spells them
/// ("AVX2"); with what kernels use beside it: "_VNNI" where the processor multiplies INT8 in one instruction
/// ("AVX3_VNNI": Cascade Lake, Ice Lake and Zen 4 on, "AVX2_VNNI": with AVX-VNNI), "_AMX", and on ARM "_DOTPROD" and
/// "_I8MM".
std::vector<std::string> simd_targets();

/// The one in use: the best, unless use_simd_target chose.
std::string simd_target();

/// For comparisons: oneDNN, which has instruction sets of its own, then multiplies only what use_engine gives to it.
/// Throws Error listing those that there are.
void use_simd_target(std::string_view name);

/// Who multiplies prompts with weights of F32, F16 and BF16: "ballast", and "onednn" where it is built in, found when
/// it is first needed, and comes to the same bits: with instruction sets that fuse multiplication and addition.
std::vector<std::string> engines();

/// "auto", as at the start: whoever is faster here. Throws Error listing what there is.
void use_engine(std::string_view name);

/// Who multiplies this many tokens at once, or more up to the next choice.
struct EngineChoice {
  std::size_t tokens = 0;
  std::string engine;
  double speed = 1;  ///< of oneDNN as a multiple of ballast's; 1 where it is not built in
};

/// As timed for a few milliseconds when first needed, or as use_engine and use_simd_target have it.
std::vector<EngineChoice> engine_choices();

/// Multiplies weights of F32, F16 and BF16 with activations, both rounded to BF16, with sums in F32: twice as fast or
/// more, and less exact. Of no effect on quantized weights. Throws Error where the processor has no such products
/// (AVX512-BF16, AMX) or oneDNN is not built in.
void use_bf16_products(bool use);
bool bf16_products();

}  // namespace ballast

#endif  // BALLAST_PROCESSOR_H_
