// Options of the cache of keys and values.
#ifndef BALLAST_CACHE_H_
#define BALLAST_CACHE_H_

#include <cstddef>

namespace ballast {

struct CacheOptions {
  enum class Type {
    kAuto,  ///< F32 for an encoder, INT8 for a model whose activations are INT8, else F16
    kF32,
    kF16,
    kInt8,  ///< a scale per token and head; tokens that calibration found massive stay in 16 bits
  };
  Type type = Type::kAuto;

  /// Rolling cache after StreamingLLM (arXiv:2309.17453): the first `sinks` tokens and the last `window` are kept in
  /// constant memory, with positions by index in the cache. 0: everything is kept.
  std::size_t window = 0;
  std::size_t sinks = 0;  ///< only with a window

  bool operator==(const CacheOptions&) const = default;
};

}  // namespace ballast

#endif  // BALLAST_CACHE_H_
