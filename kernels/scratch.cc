#include "kernels/scratch.h"

namespace ballast::kernels {
namespace {

AlignedArray<float>& memory_of_caller() {
  static thread_local AlignedArray<float> memory;
  return memory;
}

}  // namespace

ThreadScratch::ThreadScratch(std::size_t threads, std::size_t floats_each)
    : floats_each_((floats_each + 31) / 32 * 32) {  // whole cache lines: threads never write to the same one
  AlignedArray<float>& memory = memory_of_caller();
  memory.grow(threads * floats_each_);
  memory_ = memory.data();
}

}  // namespace ballast::kernels
