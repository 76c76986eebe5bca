// Vectors of texts.
#ifndef BALLAST_EMBED_H_
#define BALLAST_EMBED_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "ballast/cache.h"
#include "ballast/spec.h"

namespace ballast {

/// What is not said is what the model's makers say (ModelSpec::text_vectors), or else what TextVectorSpec has.
struct EmbedOptions {
  std::optional<Pooling> pooling{};
  std::optional<bool> normalized{};
  std::optional<std::size_t> most_tokens{};  ///< of a text, special ones included
  CacheOptions::Type cache_type = CacheOptions::Type::kAuto;
};

struct TextVectors {
  std::size_t size = 0;       ///< values of a vector
  std::vector<float> values;  ///< [texts][size]
  std::size_t tokens = 0;     ///< of all texts
  std::size_t cut = 0;        ///< texts of which the end was cut off
};

}  // namespace ballast

#endif  // BALLAST_EMBED_H_
