// Aligned memory for kernels: arrays that own, weights, and scratch that calls reuse. And what the heap keeps for
// others.
#ifndef BALLAST_KERNELS_SCRATCH_H_
#define BALLAST_KERNELS_SCRATCH_H_

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>

namespace ballast::kernels {

/// What is at least so large lies in huge pages where the system has them: reading it again and again, as a token reads
/// all weights and its cache, then misses the TLB less.
inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

struct AlignedFree {
  std::size_t mapped_bytes = 0;  ///< 0: the memory is from the heap
  void operator()(std::byte* memory) const noexcept;
};
using AlignedMemory = std::unique_ptr<std::byte[], AlignedFree>;

/// Uninitialized bytes, aligned for any vector. Throws std::bad_alloc.
AlignedMemory allocate_aligned(std::size_t bytes);

/// Uninitialized bytes of a matrix, aligned for any vector. They are a piece of a large mapping, where what a thread
/// takes lies one after the other: small matrices, too, come to lie in huge pages, in the order in which a token reads
/// them. A piece gives its memory back when it goes, and the mapping with the last of them its addresses. Throws
/// std::bad_alloc.
std::shared_ptr<std::byte[]> allocate_weights(std::size_t bytes);

/// Owner of `size` uninitialized elements, aligned for any vector. Growing loses the content.
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

/// Scratch for the threads of one parallel call. The calling thread keeps the memory for its next call, so that a token
/// costs no allocation; it must not make a second ThreadScratch while one is in use. Allocating before the parallel
/// region means that nothing can throw inside it.
class ThreadScratch {
 public:
  ThreadScratch(std::size_t threads, std::size_t floats_each);

  float* of(std::size_t thread) const { return memory_ + thread * floats_each_; }

 private:
  float* memory_;
  std::size_t floats_each_;
};

/// Gives the machine what was freed and the heap kept, where it can. Worth it after work that left holes: many matrices
/// of a few megabytes, parsing. Takes milliseconds.
void give_back_free_memory();

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_SCRATCH_H_
