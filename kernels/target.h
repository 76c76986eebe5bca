// Instructions in use beyond Highway's targets.
#ifndef BALLAST_KERNELS_TARGET_H_
#define BALLAST_KERNELS_TARGET_H_

namespace ballast::kernels {

/// Instructions that kernels use in addition to those of Highway's targets. A later one includes the earlier ones of
/// the same architecture.
enum class Extension {
  kNone,
  kVnni,            ///< vpdpbusd, with AVX2 and AVX3
  kAmx,             ///< INT8 tiles, with AVX3
  kDotProduct,      ///< sdot, with NEON
  kMatrixProducts,  ///< smmla and usdot (i8mm), with NEON and SVE
};
Extension target_extension();

/// Returns whether the target in use is the best one.
bool uses_best_target();

/// The implementation of AMX tiles.
enum class AmxUnit { kNone, kProcessor, kEmulated };
AmxUnit amx_unit();

/// For tests: emulates AMX with every instruction set that processors with AMX have.
void emulate_amx(bool emulate);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_TARGET_H_
