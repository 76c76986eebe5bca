#include "kernels/attention/key_value_pages.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/parallel.h"
#include "kernels/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/key_value_pages.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>
// After highway.h:
#include "kernels/attention/head_rotation-inl.h"
#include "kernels/matrix/integer_rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// Quantizes values of one head's row to `dst`, the position of its first code, padding included; returns their scale.
/// `rotated` is scratch, [size].
float quantize_row(const float* src, RowKind kind, std::size_t size, float* rotated, std::uint8_t* dst) {
  if (kind == RowKind::kKeys) {
    rotate_head(src, size, rotated);
    src = rotated;
  }
  constexpr std::size_t kPiece = 64;
  HWY_ALIGN std::int8_t codes[kPiece];
  const std::uint8_t offset = kind == RowKind::kKeys ? 128 : 0;
  const std::size_t step = kind == RowKind::kKeys ? kPanelTokens * 4 : 16;  // from four codes of the row to the next
  const std::size_t neighbor = kind == RowKind::kKeys ? 1 : 4;
  const std::size_t stored = stored_size(CacheType::kInt8, kind, size);
  const float maximum = absolute_maximum(src, size);
  float scale = 0.0F;
  for (std::size_t first = 0; first < stored; first += kPiece) {
    const std::size_t count = std::min(kPiece, size - std::min(size, first));
    std::fill_n(codes + count, kPiece - count, std::int8_t{0});
    std::int32_t code_sum;  // not used
    scale = quantize_group(src + std::min(size, first), count, maximum, codes, code_sum);
    for (std::size_t c = 0; c < std::min(kPiece, stored - first); c += 4, dst += step) {
      for (std::size_t i = 0; i < 4; ++i) {
        dst[i * neighbor] = static_cast<std::uint8_t>(static_cast<std::uint8_t>(codes[c + i]) ^ offset);
      }
    }
  }
  return scale;
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(quantize_row);

PageLayout::PageLayout(CacheType type, std::size_t heads, std::size_t key_size, std::size_t value_size,
                       bool values_in_keys)
    : type_(type), heads_(heads), values_in_keys_(values_in_keys) {
  if (!values_in_keys) {
    keys_ = add_rows(key_size, stored_row_bytes(type, RowKind::kKeys, key_size));
    values_ = add_rows(value_size, stored_row_bytes(type, RowKind::kValues, value_size));
    return;
  }
  assert(value_size <= key_size);
  keys_.size = key_size;
  values_.size = value_size;
  keys_ = add_rows(key_size, type == CacheType::kInt8 ? key_codes() : stored_row_bytes(type, RowKind::kKeys, key_size));
  values_ = keys_;
  values_.size = value_size;
  values_.scales_at = add_scales();
}

/// Adds a head's rows after the existing ones: whole cache lines, because kPageTokens times any size is a multiple.
PageLayout::Rows PageLayout::add_rows(std::size_t size, std::size_t row_bytes) {
  static_assert(kPageTokens % kAlignment == 0);
  Rows rows = {.size = size, .row_bytes = row_bytes, .rows_at = head_bytes_, .scales_at = 0};
  head_bytes_ += kPageTokens * row_bytes;
  rows.scales_at = add_scales();
  return rows;
}

std::size_t PageLayout::add_scales() {
  const std::size_t at = head_bytes_;
  if (type_ == CacheType::kInt8) head_bytes_ += kPageTokens * sizeof(float);
  return at;
}

namespace {

void store_row(const float* src, const PageLayout& layout, RowKind kind, std::size_t head, std::byte* page,
               std::size_t slot, float* scratch) {
  std::byte* rows = page + layout.rows_at(kind, head);
  if (layout.type() != CacheType::kInt8) {
    return from_float(src, layout.size(kind), float_type(layout.type()), rows + slot * layout.row_bytes(kind));
  }
  const auto quantize = [&](const float* values, std::size_t size, std::size_t row_size, std::size_t first,
                            RowKind scale_of) {
    auto* dst = reinterpret_cast<std::uint8_t*>(rows) + code_index(kind, row_size, slot, first);
    const float scale = HWY_DYNAMIC_DISPATCH(quantize_row)(values, kind, size, scratch, dst);
    reinterpret_cast<float*>(page + layout.scales_at(scale_of, head))[slot] = scale;
  };
  const std::size_t size = layout.size(kind);
  if (!layout.values_in_keys()) return quantize(src, size, size, 0, kind);
  const std::size_t values = layout.size(RowKind::kValues);
  quantize(src, values, layout.key_codes(), 0, RowKind::kValues);
  quantize(src + values, size - values, layout.key_codes(), layout.others_at(), RowKind::kKeys);
}

}  // namespace

void store_rows(const float* src, std::size_t src_stride, std::size_t count, const PageLayout& layout, RowKind kind,
                std::span<std::byte* const> pages, std::size_t first_slot) {
  const std::size_t size = layout.size(kind);
  const std::size_t threads = std::min(threads_for(count * layout.heads() * size), std::max<std::size_t>(1, count));
  const ThreadScratch scratch(threads, size);
  parallel_tasks(threads, threads, [&](std::size_t task, std::size_t thread) {
    for (std::size_t i = count * task / threads; i < count * (task + 1) / threads; ++i) {
      const std::size_t slot = first_slot + i;
      for (std::size_t head = 0; head < layout.heads(); ++head) {
        store_row(src + i * src_stride + head * size, layout, kind, head, pages[slot / kPageTokens], slot % kPageTokens,
                  scratch.of(thread));
      }
    }
  });
}

void copy_slots(const std::byte* src, std::size_t count, const PageLayout& layout, std::byte* dst) {
  if (layout.heads() == 0) return;
  const bool int8 = layout.type() == CacheType::kInt8;
  const std::size_t slots = int8 ? (count + kPanelTokens - 1) / kPanelTokens * kPanelTokens : count;
  const auto copy = [&](std::size_t at, std::size_t bytes) { std::memcpy(dst + at, src + at, bytes); };
  for (std::size_t head = 0; head < layout.heads(); ++head) {
    for (const RowKind kind : {RowKind::kKeys, RowKind::kValues}) {
      if (kind == RowKind::kKeys || !layout.values_in_keys()) {
        copy(layout.rows_at(kind, head), slots * layout.row_bytes(kind));
      }
      if (int8) copy(layout.scales_at(kind, head), slots * sizeof(float));
    }
  }
  if (int8) copy(layout.fp16_numbers_at(), kPageTokens);
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
