#include "kernels/scratch.h"

#include <hwy/aligned_allocator.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __linux__
#include <malloc.h>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <utility>

namespace ballast::kernels {
namespace {

AlignedArray<float>& memory_of_caller() {
  static thread_local AlignedArray<float> memory;
  return memory;
}

/// Maps whole huge pages separate from the heap, because the advice would remain on its pages when other objects reuse
/// them.
AlignedMemory map_huge_pages(std::size_t bytes) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max() / 2;
  if (bytes > kMost) throw std::bad_alloc();
  const std::size_t size = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  void* mapping = mmap(nullptr, size + kHugePageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  auto* begin = static_cast<std::byte*>(mapping);
  // Unmaps the parts before and after the aligned range.
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(begin) % kHugePageBytes;
  if (before > 0) munmap(begin, before);
  munmap(begin + before + size, kHugePageBytes - before);
#ifdef MADV_HUGEPAGE
  madvise(begin + before, size, MADV_HUGEPAGE);  // a system without huge pages refuses; the memory works in any case
#endif
  return AlignedMemory(begin + before, AlignedFree{size});
}

/// Frees a part of a mapping that has other users. The system frees whole pages.
void give_back_pages(std::byte* begin, std::size_t bytes) {
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t first = (reinterpret_cast<std::uintptr_t>(begin) + page - 1) / page * page;
  const std::uintptr_t last = reinterpret_cast<std::uintptr_t>(begin + bytes) / page * page;
  if (first < last) madvise(begin + (first - reinterpret_cast<std::uintptr_t>(begin)), last - first, MADV_DONTNEED);
}

}  // namespace

void AlignedFree::operator()(std::byte* memory) const noexcept {
  if (mapped_bytes > 0) {
    munmap(memory, mapped_bytes);
  } else {
    hwy::FreeAlignedBytes(memory, nullptr, nullptr);
  }
}

AlignedMemory allocate_aligned(std::size_t bytes) {
  if (bytes >= kHugePageBytes) return map_huge_pages(bytes);
  auto* memory = static_cast<std::byte*>(hwy::AllocateAlignedBytes(bytes, nullptr, nullptr));
  if (memory == nullptr) throw std::bad_alloc();
  return AlignedMemory(memory, AlignedFree{});
}

std::shared_ptr<std::byte[]> allocate_weights(std::size_t bytes) {
  constexpr std::size_t kMappingBytes = 32 * kHugePageBytes;  // untouched parts take only addresses
  constexpr std::size_t kLeast = kHugePageBytes / 32;         // a smaller piece could keep a whole huge page alive
  static thread_local std::weak_ptr<std::byte[]> last_mapping;
  static thread_local std::size_t used;
  if (bytes < kLeast || bytes > kMappingBytes) return allocate_aligned(bytes);
  std::shared_ptr<std::byte[]> mapping = last_mapping.lock();
  if (mapping == nullptr || kMappingBytes - used < bytes) {
    mapping = map_huge_pages(kMappingBytes);
    last_mapping = mapping;
    used = 0;
  }
  std::byte* piece = mapping.get() + used;
  used += std::min((bytes + HWY_ALIGNMENT - 1) / HWY_ALIGNMENT * HWY_ALIGNMENT, kMappingBytes - used);
  return {piece, [mapping = std::move(mapping), bytes](std::byte* memory) { give_back_pages(memory, bytes); }};
}

ThreadScratch::ThreadScratch(std::size_t threads, std::size_t floats_each)
    : floats_each_((floats_each + 31) / 32 * 32) {  // whole cache lines: threads never write to the same one
  AlignedArray<float>& memory = memory_of_caller();
  memory.grow(threads * floats_each_);
  memory_ = memory.data();
}

void give_back_free_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

}  // namespace ballast::kernels
