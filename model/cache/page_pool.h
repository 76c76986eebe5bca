// Memory for the pages of caches, which can be shared and are reused.
#ifndef BALLAST_MODEL_CACHE_PAGE_POOL_H_
#define BALLAST_MODEL_CACHE_PAGE_POOL_H_

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/scratch.h"

namespace ballast::model {

class PagePool;

/// A shared reference to a page from a pool, or none. Copies share the page; when the last one is destroyed it returns
/// to its pool, which lives as long as a reference. Several threads may hold, copy and drop references to one page,
/// each with its own PageRef; an unshared page may be written to.
class PageRef {
 public:
  PageRef() = default;
  PageRef(const PageRef& other);
  PageRef(PageRef&& other) noexcept : pool_(std::move(other.pool_)), page_(std::exchange(other.page_, nullptr)) {}
  PageRef& operator=(PageRef other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(page_, other.page_);
    return *this;
  }
  ~PageRef();

  explicit operator bool() const { return page_ != nullptr; }
  std::byte* data() const { return page_->memory; }
  std::size_t bytes() const { return page_->bytes; }

  /// Returns whether there are other references. Their reads happened before a call that returns false.
  bool shared() const { return page_->shares.load(std::memory_order_acquire) != 1; }

 private:
  friend class PagePool;

  struct Page {
    Page(std::byte* taken, std::size_t size) : memory(taken), bytes(size) {}

    std::byte* memory;  ///< part of a slab of the pool
    std::size_t bytes;
    std::atomic<std::size_t> shares{0};
    Page* next_free = nullptr;
  };

  PageRef(std::shared_ptr<PagePool> pool, Page* page) : pool_(std::move(pool)), page_(page) {
    page_->shares.store(1, std::memory_order_relaxed);
  }

  std::shared_ptr<PagePool> pool_;
  Page* page_ = nullptr;
};

/// Pages of any sizes, cut from slabs. Released pages are reused; their memory returns to the system with the pool.
/// Thread-safe.
class PagePool : public std::enable_shared_from_this<PagePool> {
 public:
  static std::shared_ptr<PagePool> make() { return std::shared_ptr<PagePool>(new PagePool); }

  /// Returns a page of this size, aligned for any vector and with arbitrary contents. Throws std::bad_alloc.
  PageRef take(std::size_t bytes);

  std::size_t bytes_in_use() const;  ///< of pages in use, a shared one counted once
  std::size_t shared_bytes() const { return shared_bytes_.load(std::memory_order_relaxed); }  ///< of shared ones
  std::size_t bytes() const;                                                                  ///< of all pages

 private:
  friend class PageRef;

  PagePool() = default;
  std::byte* cut(std::size_t bytes);
  void give_back(PageRef::Page* page);

  mutable std::mutex mutex_;
  std::vector<kernels::AlignedArray<std::byte>> slabs_;
  std::size_t cut_ = 0;         ///< bytes of the last slab that are pages
  std::size_t slab_bytes_ = 0;  ///< of all slabs
  std::vector<std::unique_ptr<PageRef::Page>> pages_;
  std::map<std::size_t, PageRef::Page*> free_;  ///< by size, the first of a list
  std::size_t bytes_in_use_ = 0;
  std::atomic<std::size_t> shared_bytes_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_CACHE_PAGE_POOL_H_
