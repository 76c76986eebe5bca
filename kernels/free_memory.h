// What a program freed but its allocator kept.
#ifndef BALLAST_KERNELS_FREE_MEMORY_H_
#define BALLAST_KERNELS_FREE_MEMORY_H_

namespace ballast::kernels {

/// Gives it back to the machine, where the allocator can. Worth it after work that left holes: many matrices of a few
/// megabytes, parsing. Takes milliseconds.
void give_back_free_memory();

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_FREE_MEMORY_H_
