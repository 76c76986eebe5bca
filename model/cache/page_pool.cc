#include "model/cache/page_pool.h"

#include <algorithm>

namespace ballast::model {

PageRef::PageRef(const PageRef& other) : pool_(other.pool_), page_(other.page_) {
  if (page_ == nullptr || page_->shares.fetch_add(1, std::memory_order_relaxed) != 1) return;
  pool_->shared_bytes_.fetch_add(page_->bytes, std::memory_order_relaxed);
}

PageRef::~PageRef() {
  if (page_ == nullptr) return;
  const std::size_t bytes = page_->bytes;
  // The next owner of the page sees all writes under any share of it.
  const std::size_t shares = page_->shares.fetch_sub(1, std::memory_order_acq_rel);
  if (shares == 1) pool_->give_back(page_);
  if (shares == 2) pool_->shared_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
}

/// Returns memory for a page. Slabs grow with the pool, so that a small cache stays small and a large one uses huge
/// pages; untouched parts of a slab use no memory.
std::byte* PagePool::cut(std::size_t bytes) {
  constexpr std::size_t kLargestSlab = 16 * kernels::kHugePageBytes;
  constexpr std::size_t kAlignment = 128;  // as AlignedArray's
  const std::size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (slabs_.empty() || slabs_.back().size() - cut_ < whole) {
    slabs_.emplace_back(std::max(whole, std::min(slab_bytes_, kLargestSlab)));
    slab_bytes_ += slabs_.back().size();
    cut_ = 0;
  }
  std::byte* memory = slabs_.back().data() + cut_;
  cut_ += whole;
  return memory;
}

PageRef PagePool::take(std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  PageRef::Page*& free = free_[bytes];
  PageRef::Page* page = free;
  if (page == nullptr) {
    page = pages_.emplace_back(std::make_unique<PageRef::Page>(cut(bytes), bytes)).get();
    bytes_ += bytes;
  } else {
    free = page->next_free;
  }
  bytes_in_use_ += bytes;
  return PageRef(shared_from_this(), page);
}

void PagePool::give_back(PageRef::Page* page) {
  const std::scoped_lock lock(mutex_);
  PageRef::Page*& free = free_.find(page->bytes)->second;
  page->next_free = free;
  free = page;
  bytes_in_use_ -= page->bytes;
}

std::size_t PagePool::bytes_in_use() const {
  const std::scoped_lock lock(mutex_);
  return bytes_in_use_;
}

std::size_t PagePool::bytes() const {
  const std::scoped_lock lock(mutex_);
  return bytes_;
}

}  // namespace ballast::model
