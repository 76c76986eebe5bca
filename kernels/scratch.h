// Aligned memory for kernels: owning arrays, weights, and scratch memory that calls reuse. Also returns free heap
// memory to the system.
#ifndef BALLAST_KERNELS_SCRATCH_H_
#define BALLAST_KERNELS_SCRATCH_H_

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>

namespace ballast::kernels {

/// Larger memory uses huge pages if the system has them: reading it repeatedly, as a token reads all weights and its
/// cache, then has fewer TLB misses.
inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

struct AlignedFree {
  std::size_t mapped_bytes = 0;  ///< 0: the memory is from the heap
  void operator()(std::byte* memory) const noexcept;
};
using AlignedMemory = std::unique_ptr<std::byte[], AlignedFree>;

/// Allocates uninitialized bytes, aligned for any vector. Throws std::bad_alloc.
AlignedMemory allocate_aligned(std::size_t bytes);

/// Allocates uninitialized bytes of a matrix, aligned for any vector. They are a piece of a large mapping, in which a
/// thread's pieces are consecutive: so small matrices use huge pages, too, in the order in which a token reads them.
/// Freeing a piece frees its memory, and freeing the last piece frees the mapping's addresses. Throws std::bad_alloc.
std::shared_ptr<std::byte[]> allocate_weights(std::size_t bytes);

/// Owns `size` uninitialized elements, aligned for any vector. Growing loses the contents.
template <class T>
  requires std::is_trivially_copyable_v<T>
class AlignedArray {
 public:
  AlignedArray() = default;
  explicit AlignedArray(std::size_t size) { grow(size); }

  /// Makes room for at least `size` elements. Throws std::bad_alloc.
  void grow(std::size_t size) {
    if (size <= size_) return;
    if (size > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_alloc();
    memory_ = allocate_aligned(size * sizeof(T));
    size_ = size;
  }

  T* data() { return reinterpret_cast<T*>(memory_.get()); }
  const T* data() const { return reinterpret_cast<const T*>(memory_.get()); }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(T); }

 private:
  AlignedMemory memory_;
  std::size_t size_ = 0;
};

/// Scratch memory for the threads of one parallel call. The calling thread keeps the memory for its next call, so that
/// a token needs no allocation; it must not create a second ThreadScratch while one is in use. Because memory is
/// allocated before the parallel region, nothing can throw inside it.
class ThreadScratch {
 public:
  ThreadScratch(std::size_t threads, std::size_t floats_each);

  float* of(std::size_t thread) const { return memory_ + thread * floats_each_; }

 private:
  float* memory_;
  std::size_t floats_each_;
};

/// Returns free heap memory to the system, if possible. Useful after work that leaves many gaps: many matrices of a few
/// megabytes, parsing. Takes milliseconds.
void give_back_free_memory();

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_SCRATCH_H_
