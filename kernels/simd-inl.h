// Loads and stores shared by all kernels. Per target: see Highway's foreach_target.h.
#if defined(BALLAST_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_SIMD_INL_H_
#undef BALLAST_KERNELS_SIMD_INL_H_
#else
#define BALLAST_KERNELS_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;

/// The number of registers limits the size of a tile: AVX-512 and ARM have 32 vectors, the others 16.
inline constexpr bool kManyRegisters = HWY_ARCH_ARM_A64 != 0 || HWY_TARGET <= HWY_AVX3;

template <class DF>
HWY_INLINE hn::VFromD<DF> load_as_float(DF df, const float* HWY_RESTRICT src) {
  return hn::LoadU(df, src);
}
/// Loads 16-bit floats as integers, because Highway accesses its float types in a way that requires aligned addresses.
template <class DF, class T>
HWY_INLINE hn::VFromD<DF> load_as_float(DF df, const T* HWY_RESTRICT src) {
  static_assert(sizeof(T) == 2);
  const auto bits = hn::LoadU(hn::Rebind<std::uint16_t, DF>(), reinterpret_cast<const std::uint16_t*>(src));
  return hn::PromoteTo(df, hn::BitCast(hn::Rebind<T, DF>(), bits));
}

/// Converts INT8 codes to floats.
template <class DF>
HWY_INLINE hn::VFromD<DF> load_as_float(DF df, const std::int8_t* HWY_RESTRICT src) {
  const auto codes = hn::LoadU(hn::Rebind<std::int8_t, DF>(), src);
  return hn::ConvertTo(df, hn::PromoteTo(hn::RebindToSigned<DF>(), codes));
}

/// Loads the first `count` lanes from memory and sets the others to 0; reads nothing beyond. Copies the values first,
/// because LoadN reads single elements on some targets, which must be aligned, and values in a mapped file need not be.
template <class DF, class T>
HWY_INLINE hn::VFromD<DF> load_as_float_n(DF df, const T* HWY_RESTRICT src, std::size_t count) {
  HWY_ALIGN T values[hn::MaxLanes(df)] = {};
  std::memcpy(static_cast<void*>(values), static_cast<const void*>(src), count * sizeof(T));
  return load_as_float(df, values);
}

/// Stores `count` of the 2 * Lanes(df) values in v0 and v1.
template <class DF, class V = hn::VFromD<DF>>
HWY_INLINE void store_pair(DF df, V v0, V v1, std::size_t count, float* HWY_RESTRICT dst) {
  const std::size_t lanes = hn::Lanes(df);
  if (HWY_LIKELY(count >= 2 * lanes)) {
    hn::StoreU(v0, df, dst);
    hn::StoreU(v1, df, dst + lanes);
  } else if (count > lanes) {
    hn::StoreU(v0, df, dst);
    hn::StoreN(v1, df, dst + lanes, count - lanes);
  } else {
    hn::StoreN(v0, df, dst, count);
  }
}

/// Loads the Lanes(df) values at src[first ..] of an array of `count`; 0 beyond its end, and for a null array.
template <class DF>
HWY_INLINE hn::VFromD<DF> load_or_zero(DF df, const float* src, std::size_t first, std::size_t count) {
  if (src == nullptr || first >= count) return hn::Zero(df);
  const std::size_t left = count - first;
  return left >= hn::Lanes(df) ? hn::LoadU(df, src + first) : hn::LoadN(df, src + first, left);
}

/// Calls body(load, store) for every vector of `count` floats: load(array) and store(v, array) access the current
/// vector in any array of that length. Lanes beyond the end load as 0 and are not stored.
template <class Body>
HWY_INLINE void for_vectors(std::size_t count, const Body& body) {
  const hn::ScalableTag<float> df;
  using Vector = hn::VFromD<decltype(df)>;
  const std::size_t lanes = hn::Lanes(df);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    body([i, df](const float* src) HWY_ATTR { return hn::LoadU(df, src + i); },
         [i, df](Vector v, float* dst) HWY_ATTR { hn::StoreU(v, df, dst + i); });
  }
  const std::size_t left = count - i;
  if (left != 0) {
    body([i, left, df](const float* src) HWY_ATTR { return hn::LoadN(df, src + i, left); },
         [i, left, df](Vector v, float* dst) HWY_ATTR { hn::StoreN(v, df, dst + i, left); });
  }
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_SIMD_INL_H_
