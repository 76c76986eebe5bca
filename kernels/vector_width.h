// The vector length of the instruction set in use.
#ifndef BALLAST_KERNELS_VECTOR_WIDTH_H_
#define BALLAST_KERNELS_VECTOR_WIDTH_H_

#include <cstddef>

namespace ballast::kernels {

/// Returns the number of 32-bit lanes of a vector.
std::size_t vector_lanes();

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_VECTOR_WIDTH_H_
