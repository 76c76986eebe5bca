#include "model/forward/page_pool.h"

namespace ballast::model {

PageRef::~PageRef() {
  // Whoever takes the page next sees what was done under any share of it.
  if (page_ != nullptr && page_->shares.fetch_sub(1, std::memory_order_acq_rel) == 1) pool_->give_back(page_);
}

PageRef PagePool::take(std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  PageRef::Page*& free = free_[bytes];
  PageRef::Page* page = free;
  if (page == nullptr) {
    page = pages_.emplace_back(std::make_unique<PageRef::Page>(bytes)).get();
    bytes_ += bytes;
  } else {
    free = page->next_free;
  }
  bytes_in_use_ += bytes;
  return PageRef(shared_from_this(), page);
}

void PagePool::give_back(PageRef::Page* page) {
  const std::scoped_lock lock(mutex_);
  PageRef::Page*& free = free_.find(page->memory.size())->second;
  page->next_free = free;
  free = page;
  bytes_in_use_ -= page->memory.size();
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
