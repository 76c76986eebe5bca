// The layout of keys and values in a cache: pages of consecutive positions, as floats or as INT8 with exceptions.
#ifndef BALLAST_KERNELS_ATTENTION_KEY_VALUE_PAGES_H_
#define BALLAST_KERNELS_ATTENTION_KEY_VALUE_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/matrix/float_matrix.h"

namespace ballast::kernels {

enum class CacheType {
  kF32,
  kF16,
  kInt8,  ///< symmetric, one scale per token, head and kind of row
};

/// Converts a type other than kInt8.
constexpr FloatType float_type(CacheType type) {
  return type == CacheType::kF32 ? FloatType::kF32 : FloatType::kF16;
}

/// Float rows have the same layout for both kinds. INT8 codes have the layout that integer dot products of four read:
/// keys [slots / kPanelTokens][size / 4][kPanelTokens][4], with 128 added to each code (the unsigned side of a
/// product), values [slots / 4][size][4]. Sizes are rounded up to whole parts. Neither layout depends on the vector
/// length.
enum class RowKind { kKeys, kValues };

/// The slots of a panel of INT8 keys: four vectors of 512 bits, a whole number of shorter ones.
inline constexpr std::size_t kPanelTokens = 64;

/// The slots of a page; the token at position p is in slot p % kPageTokens.
inline constexpr std::size_t kPageTokens = 128;
static_assert(kPageTokens % kPanelTokens == 0);

constexpr std::size_t pages_for(std::size_t tokens) {
  return (tokens + kPageTokens - 1) / kPageTokens;
}

/// Returns the values per row, including padding.
constexpr std::size_t stored_size(CacheType type, RowKind kind, std::size_t size) {
  if (type != CacheType::kInt8) return size;
  return kind == RowKind::kKeys ? (size + 3) / 4 * 4 : (size + 15) / 16 * 16;
}

/// Returns the bytes of a row.
constexpr std::size_t stored_row_bytes(CacheType type, RowKind kind, std::size_t size) {
  return stored_size(type, kind, size) * (type == CacheType::kInt8 ? 1 : float_type_bytes(float_type(type)));
}

/// Returns the index of an INT8 code of one head in rows of `size` values.
constexpr std::size_t code_index(RowKind kind, std::size_t size, std::size_t slot, std::size_t c) {
  const std::size_t stored = stored_size(CacheType::kInt8, kind, size);
  return kind == RowKind::kKeys
             ? slot / kPanelTokens * kPanelTokens * stored + c / 4 * kPanelTokens * 4 + slot % kPanelTokens * 4 + c % 4
             : slot / 4 * stored * 4 + c * 4 + slot % 4;
}

/// The layout of a page with kPageTokens tokens of one layer: for each head keys [kPageTokens][key_size], then values,
/// floats or codes as described at RowKind, in the order in which attention reads them. INT8 rows come before their
/// scales (value = code * scale); after all heads there is for every slot the number of the F16 row that replaces its
/// codes. The F16 rows are outside the page: one for each FP16 token, keys of all heads [heads][key_size], then values.
/// A layout without heads is for a layer without a cache.
///
/// Where values are the first channels of the keys (latent attention), they have no rows: those of the keys are read.
/// INT8 rounds these channels and the others separately, both rotated, the first to scales_at(kValues), the others to
/// scales_at(kKeys); in the row of codes the others begin at others_at().
class PageLayout {
 public:
  static constexpr std::int8_t kNoFp16Row = -1;
  static constexpr std::size_t kAlignment = 64;

  PageLayout() = default;
  PageLayout(CacheType type, std::size_t heads, std::size_t key_size, std::size_t value_size,
             bool values_in_keys = false);

  CacheType type() const { return type_; }
  std::size_t heads() const { return heads_; }
  std::size_t size(RowKind kind) const { return of(kind).size; }  ///< of a head's row
  bool values_in_keys() const { return values_in_keys_; }
  /// Returns the distance of rows.
  std::size_t row_bytes(RowKind kind) const { return of(kind).row_bytes; }
  /// Returns the bytes of one token and head, including scales.
  std::size_t token_bytes() const { return head_bytes_ / kPageTokens; }
  /// Returns the INT8 codes of a key.
  std::size_t key_codes() const {
    return values_in_keys_ ? others_at() + stored_size(CacheType::kInt8, RowKind::kKeys, keys_.size - values_.size)
                           : stored_size(CacheType::kInt8, RowKind::kKeys, keys_.size);
  }
  /// Returns the offset of the codes of channels that are not values; with values_in_keys().
  std::size_t others_at() const { return stored_size(CacheType::kInt8, RowKind::kKeys, values_.size); }
  /// Returns the bytes of a page, whose address is a multiple of kAlignment.
  std::size_t bytes() const {
    return heads_ * head_bytes_ + (type_ == CacheType::kInt8 && heads_ != 0 ? kPageTokens : 0);
  }

  // Offsets in bytes from a page's start.
  std::size_t rows_at(RowKind kind, std::size_t head) const { return head * head_bytes_ + of(kind).rows_at; }
  /// kInt8: float [kPageTokens] of a head.
  std::size_t scales_at(RowKind kind, std::size_t head) const { return head * head_bytes_ + of(kind).scales_at; }
  /// kInt8: std::int8_t [kPageTokens], a slot's F16 row or kNoFp16Row.
  std::size_t fp16_numbers_at() const { return heads_ * head_bytes_; }

  /// Return the values of one token's F16 row, and the offset of one head in it.
  std::size_t fp16_row_size() const { return heads_ * (keys_.size + (values_in_keys_ ? 0 : values_.size)); }
  std::size_t fp16_values_at(RowKind kind, std::size_t head) const {
    return kind == RowKind::kKeys || values_in_keys_ ? head * keys_.size : heads_ * keys_.size + head * values_.size;
  }

 private:
  struct Rows {
    std::size_t size = 0;
    std::size_t row_bytes = 0;
    std::size_t rows_at = 0;
    std::size_t scales_at = 0;
  };

  const Rows& of(RowKind kind) const { return kind == RowKind::kKeys ? keys_ : values_; }
  Rows add_rows(std::size_t size, std::size_t row_bytes);
  std::size_t add_scales();

  CacheType type_ = CacheType::kF32;
  std::size_t heads_ = 0;
  std::size_t head_bytes_ = 0;
  bool values_in_keys_ = false;
  Rows keys_;
  Rows values_;
};

/// A view of a page.
struct CachePage {
  const std::byte* data = nullptr;
  const std::uint16_t* fp16_rows = nullptr;  ///< [rows][fp16_row_size()]; null: none
};

class KeyRotation;

/// The bias that a projection adds to the keys of a layer before they are rotated; see key_bias.h.
struct KeyBias {
  const float* values = nullptr;  ///< [kv_heads][head_size]; null: none
  const KeyRotation* rotation = nullptr;
};

/// Maps positions to a cache's pages. The first `fixed` pages hold the first positions permanently; later positions use
/// a ring of `ring` pages.
struct PageOrder {
  std::size_t fixed = static_cast<std::size_t>(-1);
  std::size_t ring = 0;

  std::size_t page_of(std::size_t position) const {
    const std::size_t page = position / kPageTokens;
    return page < fixed ? page : fixed + (page - fixed) % ring;
  }
};

/// The cache of one sequence in one layer. Slots without a position have arbitrary contents.
struct KeyValueView {
  const PageLayout* layout = nullptr;
  std::span<const CachePage> pages{};
  PageOrder order{};
  KeyBias key_bias{};  ///< missing in the codes of keys: the bias, rotated at each key's position; F16 rows include it
  std::size_t length = 0;  ///< number of positions, including the queries' own

  const CachePage& page_of(std::size_t position) const { return pages[order.page_of(position)]; }
};

/// Stores rows [count][heads * size] (`src_stride` floats apart) of keys or values in the slots from `first_slot` of
/// the first page on, through as many pages as it takes. To F16 and INT8 ties round to even; an INT8 row of zeros has
/// scale 0. The slots' numbers of F16 rows stay as they are. Values that keys contain are stored with these.
void store_rows(const float* src, std::size_t src_stride, std::size_t count, const PageLayout& layout, RowKind kind,
                std::span<std::byte* const> pages, std::size_t first_slot);

/// Copies the first `count` slots of a page, and maybe others.
void copy_slots(const std::byte* src, std::size_t count, const PageLayout& layout, std::byte* dst);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_ATTENTION_KEY_VALUE_PAGES_H_
