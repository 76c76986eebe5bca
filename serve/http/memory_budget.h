// Limits of the memory of requests: for each of them, and for all together.
#ifndef BALLAST_SERVE_HTTP_MEMORY_BUDGET_H_
#define BALLAST_SERVE_HTTP_MEMORY_BUDGET_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace ballast::serve {

/// A budget of bytes for all requests: their bodies while they are received, the data parsed from them, and answers
/// until they are sent. Any thread.
class MemoryBudget {
 public:
  /// Bytes of each request that are not counted, so that large requests cannot block small ones. The number of
  /// connections limits their sum.
  static constexpr std::size_t kFree = std::size_t{64} << 10;

  /// One request may hold at most a quarter.
  explicit MemoryBudget(std::size_t bytes) : bytes_(bytes) {}

  std::size_t bytes() const { return bytes_; }
  std::size_t bytes_of_one() const { return bytes_ / 4; }
  std::size_t used() const { return used_.load(std::memory_order_relaxed); }

  /// Returns the number of requests that were refused because the budget was used up.
  std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  friend class MemoryShare;

  bool take(std::size_t bytes) {
    std::size_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > bytes_ - used) {
        refused_.fetch_add(1, std::memory_order_relaxed);
        return false;
      }
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void give_back(std::size_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

  const std::size_t bytes_;
  std::atomic<std::size_t> used_ = 0;
  std::atomic<std::uint64_t> refused_ = 0;
};

/// The memory of one request; returned to the budget on destruction. One thread at a time.
class MemoryShare {
 public:
  /// Without a budget (null) there is no limit.
  explicit MemoryShare(std::shared_ptr<MemoryBudget> budget = nullptr) : budget_(std::move(budget)) {}
  MemoryShare(MemoryShare&& other) noexcept
      : budget_(std::move(other.budget_)), charged_(std::exchange(other.charged_, 0)) {}
  MemoryShare& operator=(MemoryShare&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(charged_, other.charged_);
    return *this;
  }
  ~MemoryShare() {
    if (charged_ > 0) budget_->give_back(charged_);
  }

  /// Returns false, and changes nothing, if the budget has not enough left.
  bool resize(std::size_t bytes) {
    if (!budget_) return true;
    const std::size_t wanted = bytes > MemoryBudget::kFree ? bytes - MemoryBudget::kFree : 0;
    if (wanted > charged_ && !budget_->take(wanted - charged_)) return false;
    if (wanted < charged_) budget_->give_back(charged_ - wanted);
    charged_ = wanted;
    return true;
  }

 private:
  std::shared_ptr<MemoryBudget> budget_;
  std::size_t charged_ = 0;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_HTTP_MEMORY_BUDGET_H_
