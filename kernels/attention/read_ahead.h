// Prefetches memory that is needed later.
#ifndef BALLAST_KERNELS_ATTENTION_READ_AHEAD_H_
#define BALLAST_KERNELS_ATTENTION_READ_AHEAD_H_

#include <algorithm>
#include <cstddef>

namespace ballast::kernels {

/// Reads ahead of the products, which would wait for memory at each row: a little at each step.
class ReadAhead {
 public:
  /// Prefetches `bytes` over about `steps` steps. Null: nothing.
  ReadAhead(const std::byte* data, std::size_t bytes, std::size_t steps)
      : next_(data), end_(data == nullptr ? data : data + bytes), step_((bytes / steps / kLine + 1) * kLine) {}

  void step() {
    if (next_ == end_) return;
    const std::byte* end = next_ + std::min(step_, static_cast<std::size_t>(end_ - next_));
    for (; next_ < end; next_ += kLine) __builtin_prefetch(next_, 0, 2);
    next_ = end;
  }

 private:
  static constexpr std::size_t kLine = 64;
  const std::byte* next_;
  const std::byte* end_;
  std::size_t step_;
};

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_ATTENTION_READ_AHEAD_H_
