// Decodes a model's tensors to floats, in the order of the forward pass.
#ifndef BALLAST_MODEL_SOURCE_TENSOR_DECODER_H_
#define BALLAST_MODEL_SOURCE_TENSOR_DECODER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "model/block/weights.h"
#include "model/source/tensor_locator.h"

namespace ballast::model {

/// One module's weights in F32, for passes and exports.
struct FloatWeights {
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::vector<float> values;  ///< [rows][cols]
};

/// All functions throw Error if a shape is wrong or a value is not finite. Thread-safe. The locator must outlive it.
class TensorDecoder {
 public:
  explicit TensorDecoder(const TensorLocator& locator) : locator_(locator) {}

  Norm norm(Role role, std::size_t layer) const;
  std::vector<float> vector(Role role, std::size_t layer) const;
  std::vector<float> bias(Role role, std::size_t layer, std::size_t expert) const;
  FloatWeights float_weights(Role role, std::size_t layer, std::size_t expert) const;

  /// Returns what an adapter adds to a matrix of the original model, in the order of the forward pass; nullopt:
  /// nothing.
  std::optional<LoraProduct> lora_product(const LoraAdapter& adapter, Role role, std::size_t layer,
                                          std::size_t expert) const;
  std::vector<float> float_rows(Role role, std::size_t first, std::size_t count) const;

 private:
  std::vector<float> floats(const std::string& name, const Shape& shape) const;
  std::vector<float> gain(Role norm, std::size_t layer) const;
  void decode_codec(const MatrixLocation& matrix, std::size_t cols, float* dst) const;
  void multiply_by_vector(const StoredVector& vector, std::size_t layer, std::size_t expert, std::size_t cols,
                          std::vector<float>& values) const;

  const TensorLocator& locator_;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_TENSOR_DECODER_H_
