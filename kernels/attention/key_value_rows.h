// How keys and values lie in a cache: rings of rows per key head, in floats or in INT8 with exceptions.
#ifndef BALLAST_KERNELS_ATTENTION_KEY_VALUE_ROWS_H_
#define BALLAST_KERNELS_ATTENTION_KEY_VALUE_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/matrix/float_matrix.h"

namespace ballast::kernels {

enum class CacheType {
  kF32,
  kF16,
  kBF16,
  kInt8,  ///< symmetric, one scale per token and head
};

constexpr CacheType cache_type(FloatType type) {
  return type == FloatType::kF32 ? CacheType::kF32 : type == FloatType::kF16 ? CacheType::kF16 : CacheType::kBF16;
}

/// Of a type other than kInt8.
constexpr FloatType float_type(CacheType type) {
  return type == CacheType::kF32 ? FloatType::kF32 : type == CacheType::kF16 ? FloatType::kF16 : FloatType::kBF16;
}

/// Floats lie alike in both; INT8 codes as integer dot products of four read them, once written and often read:
/// keys [slots / kPanelTokens][size / 4][kPanelTokens][4], with 128 added to each code (the unsigned side of a
/// product), values [slots / 4][size][4]. Slots and sizes are rounded up to whole parts. No vector length shows in
/// either.
enum class RowKind { kKeys, kValues };

/// The slots of a panel of INT8 keys: four vectors of 512 bits, a whole number of shorter ones.
inline constexpr std::size_t kPanelTokens = 64;

/// Slots that the memory of a store has room for.
constexpr std::size_t stored_slots(CacheType type, std::size_t capacity) {
  return type == CacheType::kInt8 ? (capacity + kPanelTokens - 1) / kPanelTokens * kPanelTokens : capacity;
}

/// Values per row, padding included.
constexpr std::size_t stored_size(CacheType type, RowKind kind, std::size_t size) {
  if (type != CacheType::kInt8) return size;
  return kind == RowKind::kKeys ? (size + 3) / 4 * 4 : (size + 15) / 16 * 16;
}

/// Bytes of one row.
constexpr std::size_t stored_row_bytes(CacheType type, RowKind kind, std::size_t size) {
  return stored_size(type, kind, size) * (type == CacheType::kInt8 ? 1 : float_type_bytes(float_type(type)));
}

/// Where an INT8 code of one head lies.
constexpr std::size_t code_index(RowKind kind, std::size_t size, std::size_t slot, std::size_t c) {
  const std::size_t stored = stored_size(CacheType::kInt8, kind, size);
  return kind == RowKind::kKeys
             ? slot / kPanelTokens * kPanelTokens * stored + c / 4 * kPanelTokens * 4 + slot % kPanelTokens * 4 + c % 4
             : slot / 4 * stored * 4 + c * 4 + slot % 4;
}

/// View of the keys, or the values, of one sequence in one layer, the row of position p in slot p % capacity. Floats:
/// [kv_heads][capacity][size], at any address; codes: per head as RowKind says.
struct CachedRows {
  const void* data = nullptr;
  CacheType type = CacheType::kF32;
  RowKind kind = RowKind::kKeys;
  std::size_t capacity = 0;
  const float* scales = nullptr;  ///< kInt8: [kv_heads][stored slots], value = code * scale; else null
  /// kInt8, or null: [capacity], the row of `exact` that is read in place of a slot's codes, -1 for none.
  const std::int32_t* exact_rows = nullptr;
  const std::uint16_t* exact = nullptr;  ///< F16, [rows][kv_heads][size]; null: no slot has such a row
};

class KeyRotation;

/// What a projection adds to the keys of a layer before they are rotated; see key_bias.h.
struct KeyBias {
  const float* values = nullptr;  ///< [kv_heads][head_size]; null: none
  const KeyRotation* rotation = nullptr;
};

/// What attention reads of one sequence in one layer.
struct KeyValueView {
  CachedRows keys{};
  CachedRows values{};
  /// Of a rolling cache, the first positions, which its ring does not hold: [kv_heads][sinks][size], no codes. Data is
  /// null where keys and values hold all positions that are seen.
  CachedRows sink_keys{};
  CachedRows sink_values{};
  /// What codes of keys lack: the bias, rotated at each key's position. Sinks and exact rows have it.
  KeyBias key_bias{};
  std::size_t length = 0;  ///< positions so far, the queries' own included
};

/// Keys or values of one sequence in one layer, to be written; laid out as CachedRows.
struct WritableRows {
  void* data = nullptr;
  CacheType type = CacheType::kF32;
  RowKind kind = RowKind::kKeys;
  float* scales = nullptr;  ///< kInt8 only
  std::size_t heads = 0;
  std::size_t capacity = 0;
  std::size_t size = 0;
};

/// Stores rows [count][heads * size] (`stride` floats apart) at positions `first`... To 16 bits and INT8 ties round to
/// even; an INT8 row of zeros has scale 0.
void store_rows(const float* src, std::size_t stride, std::size_t count, std::size_t first, const WritableRows& dst);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_ATTENTION_KEY_VALUE_ROWS_H_
