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

/// A mapping of whole huge pages, apart from the heap: advice would stay with its pages when other things reuse them.
AlignedMemory map_huge_pages(std::size_t bytes) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max() / 2;
  if (bytes > kMost) throw std::bad_alloc();
  const std::size_t size = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  void* mapping = mmap(nullptr, size + kHugePageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  auto* begin = static_cast<std::byte*>(mapping);
  // What lies before and after the aligned part goes back.
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(begin) % kHugePageBytes;
  if (before > 0) munmap(begin, before);
  munmap(begin + before + size, kHugePageBytes - before);
#ifdef MADV_HUGEPAGE
  madvise(begin + before, size, MADV_HUGEPAGE);  // a system without them refuses, and the memory is as good as any
#endif
  return AlignedMemory(begin + before, AlignedFree{size});
}

/// What lies in a mapping that others are in, too. The system takes whole pages.
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
  constexpr std::size_t kMappingBytes = 32 * kHugePageBytes;  // what no piece touches is only an address
  constexpr std::size_t kLeast = kHugePageBytes / 32;         // a smaller piece could hold a whole huge page alone
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
