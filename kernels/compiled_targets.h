// The instruction sets that kernels are compiled for.
#ifndef BALLAST_KERNELS_COMPILED_TARGETS_H_
#define BALLAST_KERNELS_COMPILED_TARGETS_H_

#include <string>
#include <vector>

namespace ballast::kernels {

/// Returns Highway's names, the best first; the processor may not support all.
std::vector<std::string> compiled_targets();

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_COMPILED_TARGETS_H_
