// Replaces operator new in the one test program that includes this file, once: each allocation calls the two functions
// below, which the test defines. Not inlined: gcc 12 takes malloc and free inside new and delete for a mismatch
// (-Wmismatched-new-delete).
#ifndef BALLAST_TESTS_SUPPORT_REPLACED_NEW_H_
#define BALLAST_TESTS_SUPPORT_REPLACED_NEW_H_

#include <cstdlib>
#include <new>

namespace ballast::test {

/// Returns whether an allocation of `size` bytes fails. It may be called from several threads.
bool allocation_fails(std::size_t size);

/// Called with the memory of each allocation that throws on failure.
void on_allocated(void* memory);

inline void* allocate(std::size_t size) {
  return allocation_fails(size) ? nullptr : std::malloc(size);
}

inline void* allocate(std::size_t size, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  return allocation_fails(size) ? nullptr : std::aligned_alloc(step, (size + step - 1) / step * step);
}

inline void* allocated_or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  on_allocated(memory);
  return memory;
}

}  // namespace ballast::test

[[gnu::noinline]] void* operator new(std::size_t size) {
  return ballast::test::allocated_or_throw(ballast::test::allocate(size));
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  return ballast::test::allocated_or_throw(ballast::test::allocate(size, alignment));
}
// The library's versions call those above, but AddressSanitizer's do not, and std::stable_sort mixes them with plain
// delete.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return ballast::test::allocate(size);
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return ballast::test::allocate(size, alignment);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}

#endif  // BALLAST_TESTS_SUPPORT_REPLACED_NEW_H_
