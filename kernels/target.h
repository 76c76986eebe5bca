// What the instruction set in use has beyond Highway's.
#ifndef BALLAST_KERNELS_TARGET_H_
#define BALLAST_KERNELS_TARGET_H_

namespace ballast::kernels {

/// Instructions that kernels use beside those of Highway's targets. A later one includes those before it of the same
/// architecture.
enum class Extension {
  kNone,
  kVnni,            ///< vpdpbusd beside AVX2 and AVX3
  kAmx,             ///< INT8 tiles beside AVX3
  kDotProduct,      ///< sdot beside NEON
  kMatrixProducts,  ///< smmla and usdot (i8mm) beside NEON and SVE
};
Extension target_extension();

/// Unless use_simd_target chose a lesser one.
bool uses_best_target();

/// Who multiplies tiles for AMX.
enum class AmxUnit { kNone, kProcessor, kEmulated };
AmxUnit amx_unit();

/// For tests: with every instruction set that could have AMX beside it, the same products by an emulation.
void emulate_amx(bool emulate);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_TARGET_H_
