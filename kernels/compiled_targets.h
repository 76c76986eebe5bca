// Which instruction sets the kernels are compiled for.
#ifndef BALLAST_KERNELS_COMPILED_TARGETS_H_
#define BALLAST_KERNELS_COMPILED_TARGETS_H_

#include <string>
#include <vector>

namespace ballast::kernels {

/// Highway's names, the best first; some may be more than this processor has.
std::vector<std::string> compiled_targets();

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_COMPILED_TARGETS_H_
