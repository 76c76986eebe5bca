// What the instruction set in use has beyond Highway's.
#ifndef BALLAST_KERNELS_TARGET_H_
#define BALLAST_KERNELS_TARGET_H_

namespace ballast::kernels {

/// Whether kernels that Highway compiles for AVX2 or AVX3 shall multiply by vpdpbusd, which came later.
bool target_adds_vnni();

/// Unless use_simd_target chose a lesser one.
bool uses_best_target();

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_TARGET_H_
