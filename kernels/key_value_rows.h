// How keys and values lie in a cache: rings of rows per key head, in floats or in INT8 with exceptions.
#ifndef BALLAST_KERNELS_KEY_VALUE_ROWS_H_
#define BALLAST_KERNELS_KEY_VALUE_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/float_matrix.h"

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

constexpr std::size_t cache_type_bytes(CacheType type) {
  return type == CacheType::kInt8 ? 1 : float_type_bytes(float_type(type));
}

/// View of the keys, or the values, of one sequence in one layer: [kv_heads][capacity][size], the row of position p in
/// slot p % capacity. The address need not be aligned.
struct CachedRows {
  const void* data = nullptr;
  CacheType type = CacheType::kF32;
  std::size_t capacity = 0;
  const float* scales = nullptr;  ///< kInt8: [kv_heads][capacity], value = code * scale; else null
  /// kInt8, or null: [capacity], the row of `exact` that is read in place of a slot's codes, -1 for none.
  const std::int32_t* exact_rows = nullptr;
  const std::uint16_t* exact = nullptr;  ///< F16, [rows][kv_heads][size]
};

/// What attention reads of one sequence in one layer.
struct KeyValueView {
  CachedRows keys{};
  CachedRows values{};
  /// Of a rolling cache, the first positions, which its ring does not hold: [kv_heads][sinks][size]. Data is null where
  /// keys and values hold all positions that are seen.
  CachedRows sink_keys{};
  CachedRows sink_values{};
  std::size_t length = 0;  ///< positions so far, the queries' own included
};

/// Keys or values of one sequence in one layer, to be written; laid out as CachedRows.
struct WritableRows {
  void* data = nullptr;
  CacheType type = CacheType::kF32;
  float* scales = nullptr;  ///< kInt8 only
  std::size_t heads = 0;
  std::size_t capacity = 0;
  std::size_t size = 0;
};

/// Stores rows [count][heads * size] (`stride` floats apart) at positions `first`... To 16 bits and INT8 ties round to
/// even; an INT8 row of zeros has scale 0.
void store_rows(const float* src, std::size_t stride, std::size_t count, std::size_t first, const WritableRows& dst);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_KEY_VALUE_ROWS_H_
