// Computes a vector of a text from the hidden values of its tokens.
#ifndef BALLAST_ENGINE_TEXT_POOLER_H_
#define BALLAST_ENGINE_TEXT_POOLER_H_

#include <cstddef>
#include <span>
#include <vector>

#include "ballast/spec.h"
#include "engine/sequence.h"
#include "model/source/sentence_modules.h"

namespace ballast::engine {

/// Reads hidden values as they are computed.
class TextPooler : public HiddenReader {
 public:
  TextPooler(Pooling pooling, std::size_t hidden_size) : pooling_(pooling), sums_(hidden_size) {}

  void read(std::span<const float> rows) override;

  /// Returns the pooled hidden values of a text with tokens.
  std::vector<float> pooled() const;

  /// Returns the vector after the model's dense modules, if it has any; only its first values, if `dimensions` is not
  /// 0. `normalized`: scales it to length 1. Throws Error if hidden values were not finite.
  std::vector<float> vector(const model::TextDense& dense, bool normalized, std::size_t dimensions = 0) const;

 private:
  Pooling pooling_;
  std::size_t rows_ = 0;
  std::vector<double> sums_;
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_TEXT_POOLER_H_
