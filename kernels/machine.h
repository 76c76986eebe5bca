// Measures the limits of this machine, with which benchmarks are compared.
#ifndef BALLAST_KERNELS_MACHINE_H_
#define BALLAST_KERNELS_MACHINE_H_

#include <cstddef>

namespace ballast::kernels {

/// Returns the bytes per nanosecond that all threads together read from memory: the best of a few passes over 256 MB,
/// ~150 ms.
double measure_read_gb_s();

/// Returns 10^9 INT8 multiplications and additions per second (a multiply-add is 2) of all threads together, from
/// registers, with the instruction that the kernels use: ~100 ms.
double measure_int8_gops();

/// Return the same for F32 multiply-adds, and for those of BF16 pairs into F32.
double measure_f32_gflops();
double measure_bf16_gflops();  ///< needs multiplies_bf16()

/// Returns the number of memory nodes; 1 if unknown.
std::size_t memory_nodes();

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_MACHINE_H_
