// The pages of one sequence in one layer.
#ifndef BALLAST_MODEL_CACHE_LAYER_PAGES_H_
#define BALLAST_MODEL_CACHE_LAYER_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/attention/key_value_pages.h"
#include "model/cache/page_pool.h"

namespace ballast::model {

/// A page outside of a cache, to be stored in a file or filled from one. Shares its memory with caches.
struct StoredPage {
  PageRef data;
  PageRef fp16_rows;           ///< empty if no slot refers to one
  std::size_t fp16_bytes = 0;  ///< up to the last row that a slot refers to
};

/// Copies share all pages; writing to a shared one copies it first.
class LayerPages {
 public:
  LayerPages(const kernels::PageLayout& layout, std::shared_ptr<PagePool> pool)
      : layout_(layout), pool_(std::move(pool)) {}

  const kernels::PageLayout& layout() const { return layout_; }
  std::size_t bytes() const;  ///< of the layer's pages, shared or not

  /// Returns page `index` for writing, allocated and not shared; of its slots the first `used` keep their contents.
  /// Throws std::bad_alloc.
  std::byte* own_page(std::size_t index, std::size_t used);

  // INT8: set what a slot of an own page reads. The first selects the codes, the second stores an F16 row: keys [heads
  // * key_size] and values [heads * value_size], unless keys contain them.
  void read_codes(std::size_t index, std::size_t slot);
  void read_fp16(std::size_t index, std::size_t slot, const float* keys, const float* values);
  bool reads_fp16(std::size_t index, std::size_t slot) const;

  /// Returns a page that has been written, shared. Its F16 rows end with the last one that a slot refers to.
  StoredPage share(std::size_t index) const;

  /// Returns whether a page may have F16 rows of this size in a file.
  bool allows_fp16_bytes(std::size_t bytes) const;

  /// Returns memory for a page with F16 rows of a size that is allowed. Throws std::bad_alloc.
  StoredPage make_stored(std::size_t fp16_bytes) const;

  /// Returns whether the slots of a page refer only to rows that it has.
  bool is_consistent(const StoredPage& page) const;

  /// Replaces a page, or adds it after the last one. The page is consistent.
  void adopt(std::size_t index, StoredPage page);

  /// Releases all pages but the first `count`.
  void keep_first(std::size_t count);

  /// Returns the pages for attention. Valid until a page is added.
  std::span<const kernels::CachePage> view() const { return view_; }

 private:
  struct Page {
    PageRef data;
    PageRef fp16_rows;  ///< as many as fit; those that a slot refers to are in use
  };

  std::span<std::int8_t> fp16_numbers(const PageRef& data) const;
  std::int8_t* fp16_numbers(std::size_t index) const { return fp16_numbers(pages_[index].data).data(); }
  std::size_t fp16_row_bytes() const { return layout_.fp16_row_size() * sizeof(std::uint16_t); }
  std::size_t fp16_capacity(std::size_t bytes) const;
  void make_place(std::size_t index);
  std::size_t free_fp16_row(std::size_t index) const;
  void make_fp16_row(std::size_t index, std::size_t row);

  kernels::PageLayout layout_;
  std::shared_ptr<PagePool> pool_;
  std::vector<Page> pages_;
  std::vector<kernels::CachePage> view_;  ///< of pages_
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_CACHE_LAYER_PAGES_H_
