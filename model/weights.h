// Weights of a loaded model, ready to be multiplied.
#ifndef BALLAST_MODEL_WEIGHTS_H_
#define BALLAST_MODEL_WEIGHTS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "kernels/float_matrix.h"
#include "kernels/quantized_matrix.h"

namespace ballast::model {

/// A float matrix that is a view of a mapped file, or of the values beside it when the file's had to be decoded.
struct FloatMatrixHolder {
  kernels::FloatMatrix matrix;
  std::vector<float> owned;
};

/// y = W x + b, in whatever form W is stored.
struct Linear {
  std::string name;  ///< "model.layers.0.self_attn.q_proj"
  std::variant<FloatMatrixHolder, kernels::QuantizedMatrix> weights;
  std::vector<float> bias;  ///< empty when there is none
  /// Set when the input shall be quantized to INT8 in this way.
  std::optional<kernels::ActivationFormat> activations;

  std::size_t rows() const;
  std::size_t cols() const;
  std::size_t bytes() const;  ///< that one token's product reads
};

/// Where one linear of a group writes: rows `stride` floats apart.
struct LinearOutput {
  const Linear* linear = nullptr;
  float* dst = nullptr;
  std::size_t stride = 0;
};

/// Runs linears that read the same input src [m][cols], quantizing it once for those that want the same form.
/// `scratch` is reused from call to call.
void apply(std::span<const LinearOutput> outputs, const float* src, std::size_t m, kernels::Int8Activations& scratch);

/// Row `row` of a matrix in F32: an embedding look-up. dst is [cols].
void decode_row(const Linear& linear, std::size_t row, float* dst);

struct BlockWeights {
  std::vector<float> attention_norm;
  Linear query, key, value, attention_output;
  std::vector<float> mlp_norm;
  Linear gate, up, down;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_WEIGHTS_H_
