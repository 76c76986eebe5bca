#include "model/cache/layer_pages.h"

#include <algorithm>
#include <bitset>
#include <cassert>
#include <cstring>
#include <utility>

namespace ballast::model {

using kernels::kPageTokens;
using kernels::PageLayout;

std::size_t LayerPages::bytes() const {
  std::size_t total = 0;
  for (const Page& page : pages_) {
    if (page.data) total += page.data.bytes();
    if (page.fp16_rows) total += page.fp16_rows.bytes();
  }
  return total;
}

/// Makes page `index` exist, without memory if it is new. Throws std::bad_alloc.
void LayerPages::make_place(std::size_t index) {
  if (index < pages_.size()) return;
  view_.resize(index + 1);  // first, because the size of pages_ is the number of pages, and resizing may throw
  pages_.resize(index + 1);
}

std::byte* LayerPages::own_page(std::size_t index, std::size_t used) {
  make_place(index);
  PageRef& data = pages_[index].data;
  if (!data) {
    data = pool_->take(layout_.bytes());
    if (layout_.type() == kernels::CacheType::kInt8) {
      std::fill_n(fp16_numbers(index), kPageTokens, PageLayout::kNoFp16Row);
    }
  } else if (data.shared()) {
    PageRef copy = pool_->take(layout_.bytes());
    kernels::copy_slots(data.data(), used, layout_, copy.data());
    data = std::move(copy);
  }
  view_[index].data = data.data();
  return data.data();
}

std::span<std::int8_t> LayerPages::fp16_numbers(const PageRef& data) const {
  return {reinterpret_cast<std::int8_t*>(data.data() + layout_.fp16_numbers_at()), kPageTokens};
}

bool LayerPages::reads_fp16(std::size_t index, std::size_t slot) const {
  return layout_.type() == kernels::CacheType::kInt8 && fp16_numbers(index)[slot] != PageLayout::kNoFp16Row;
}

void LayerPages::read_codes(std::size_t index, std::size_t slot) {
  fp16_numbers(index)[slot] = PageLayout::kNoFp16Row;
}

void LayerPages::read_fp16(std::size_t index, std::size_t slot, const float* keys, const float* values) {
  read_codes(index, slot);  // frees its own row, if it has one
  const std::size_t row = free_fp16_row(index);
  make_fp16_row(index, row);
  fp16_numbers(index)[slot] = static_cast<std::int8_t>(row);
  auto* dst = reinterpret_cast<std::uint16_t*>(pages_[index].fp16_rows.data()) + row * layout_.fp16_row_size();
  const std::size_t key_values = layout_.heads() * layout_.size(kernels::RowKind::kKeys);
  kernels::from_float(keys, key_values, kernels::FloatType::kF16, dst);
  kernels::from_float(values, layout_.fp16_row_size() - key_values, kernels::FloatType::kF16, dst + key_values);
}

/// Returns the first row that no slot refers to.
std::size_t LayerPages::free_fp16_row(std::size_t index) const {
  std::bitset<kPageTokens> taken;
  for (const std::int8_t number : fp16_numbers(pages_[index].data)) {
    if (number != PageLayout::kNoFp16Row) taken.set(static_cast<std::size_t>(number));
  }
  std::size_t row = 0;
  while (taken[row]) ++row;
  return row;
}

/// Returns the size of the memory that holds rows of `bytes`: few sizes, so that released memory is reused.
std::size_t LayerPages::fp16_capacity(std::size_t bytes) const {
  constexpr std::size_t kFewest = 4;
  std::size_t capacity = kFewest * fp16_row_bytes();
  while (capacity < bytes) capacity *= 2;
  return capacity;
}

/// Ensures that a row has memory that no other cache shares.
void LayerPages::make_fp16_row(std::size_t index, std::size_t row) {
  const std::size_t needed = (row + 1) * fp16_row_bytes();
  PageRef& rows = pages_[index].fp16_rows;
  const std::size_t bytes = rows ? rows.bytes() : 0;
  if (rows && !rows.shared() && needed <= bytes) return;
  PageRef more = pool_->take(fp16_capacity(std::max(bytes, needed)));
  if (rows) std::memcpy(more.data(), rows.data(), bytes);
  rows = std::move(more);
  view_[index].fp16_rows = reinterpret_cast<const std::uint16_t*>(rows.data());
}

StoredPage LayerPages::share(std::size_t index) const {
  const Page& page = pages_[index];
  StoredPage stored = {.data = page.data, .fp16_rows = {}, .fp16_bytes = 0};
  if (layout_.type() != kernels::CacheType::kInt8 || !page.fp16_rows) return stored;
  const std::int8_t last = std::ranges::max(fp16_numbers(page.data));
  if (last == PageLayout::kNoFp16Row) return stored;
  stored.fp16_rows = page.fp16_rows;
  stored.fp16_bytes = (static_cast<std::size_t>(last) + 1) * fp16_row_bytes();
  return stored;
}

bool LayerPages::allows_fp16_bytes(std::size_t bytes) const {
  if (layout_.type() != kernels::CacheType::kInt8) return bytes == 0;
  return bytes % fp16_row_bytes() == 0 && bytes / fp16_row_bytes() <= kPageTokens;
}

StoredPage LayerPages::make_stored(std::size_t fp16_bytes) const {
  assert(allows_fp16_bytes(fp16_bytes));
  StoredPage stored = {.data = pool_->take(layout_.bytes()), .fp16_rows = {}, .fp16_bytes = fp16_bytes};
  if (fp16_bytes > 0) stored.fp16_rows = pool_->take(fp16_capacity(fp16_bytes));
  return stored;
}

bool LayerPages::is_consistent(const StoredPage& page) const {
  if (layout_.type() != kernels::CacheType::kInt8) return true;
  const auto [least, most] = std::ranges::minmax(fp16_numbers(page.data));
  return least >= PageLayout::kNoFp16Row &&
         (most == PageLayout::kNoFp16Row || static_cast<std::size_t>(most) < page.fp16_bytes / fp16_row_bytes());
}

void LayerPages::adopt(std::size_t index, StoredPage page) {
  assert(index <= pages_.size() && is_consistent(page));
  make_place(index);
  pages_[index] = {.data = std::move(page.data), .fp16_rows = std::move(page.fp16_rows)};
  view_[index].data = pages_[index].data.data();
  view_[index].fp16_rows =
      pages_[index].fp16_rows ? reinterpret_cast<const std::uint16_t*>(pages_[index].fp16_rows.data()) : nullptr;
}

void LayerPages::keep_first(std::size_t count) {
  if (count >= pages_.size()) return;
  pages_.resize(count);
  view_.resize(count);
}

}  // namespace ballast::model
