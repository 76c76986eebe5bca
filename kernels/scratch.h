// Aligned memory for kernels: arrays that own, and scratch that calls reuse.
#ifndef BALLAST_KERNELS_SCRATCH_H_
#define BALLAST_KERNELS_SCRATCH_H_

#include <hwy/aligned_allocator.h>

#include <cstddef>
#include <new>

namespace ballast::kernels {

/// Owner of `size` uninitialized elements, aligned for any vector. Growing loses the content.
template <class T>
class AlignedArray {
 public:
  AlignedArray() = default;
  explicit AlignedArray(std::size_t size) { grow(size); }

  /// Makes room for at least `size` elements. Throws std::bad_alloc.
  void grow(std::size_t size) {
    if (size <= size_) return;
    memory_ = hwy::AllocateAligned<T>(size);
    if (!memory_) throw std::bad_alloc();
    size_ = size;
  }

  T* data() { return memory_.get(); }
  const T* data() const { return memory_.get(); }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(T); }

 private:
  hwy::AlignedFreeUniquePtr<T[]> memory_;
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

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_SCRATCH_H_
