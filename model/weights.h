// Weights of a loaded model, ready to be multiplied.
#ifndef BALLAST_MODEL_WEIGHTS_H_
#define BALLAST_MODEL_WEIGHTS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ballast/spec.h"
#include "kernels/matrix/float_matrix.h"
#include "kernels/matrix/quantized_matrix.h"

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
  std::vector<float> bias;                               ///< empty when there is none
  std::optional<kernels::ActivationFormat> activations;  ///< how a quantized matrix wants its input

  std::size_t rows() const;
  std::size_t cols() const;
  std::size_t bytes() const;     ///< that one token's product reads
  std::size_t elements() const;  ///< of matrix and bias
};

/// Where one linear of a group writes: rows `stride` floats apart.
struct LinearOutput {
  const Linear* linear = nullptr;
  float* dst = nullptr;
  std::size_t stride = 0;
  bool accumulate = false;  ///< add to dst, which may not be a part of what is read
};

/// Rows of `cols` values that linears read. They may be made while they are read, so that what makes them (a norm, an
/// activation) is no pass of its own. Making may use up what they are made from: rows are read once, by source() or
/// all().
class LinearRows {
 public:
  /// Dense rows in memory.
  LinearRows(const float* rows, std::size_t cols) : source_(rows, cols), cols_(cols) {}

  /// Rows to be made. Readers that want all of them in memory have them written to `dense` [count][cols] first.
  LinearRows(const kernels::RowSource& source, std::size_t cols, float* dense)
      : source_(source), cols_(cols), dense_(dense) {}

  const kernels::RowSource& source() const { return source_; }
  const float* all(std::size_t count) const;

  /// The same rows in memory.
  LinearRows in_memory(std::size_t count) const { return {all(count), cols_}; }

 private:
  kernels::RowSource source_;
  std::size_t cols_;
  float* dense_ = nullptr;
};

/// Runs linears that read the same `count` rows, quantizing them once for those that want the same form. `scratch` is
/// reused from call to call.
void apply(std::span<const LinearOutput> outputs, const LinearRows& rows, std::size_t count,
           kernels::QuantizedActivations& scratch);

/// Row `row` of a matrix in F32: an embedding look-up. dst is [cols].
void decode_row(const Linear& linear, std::size_t row, float* dst);

/// A norm with all that it needs; a model may lack it, then its gain is empty.
struct Norm {
  NormSpec::Kind kind = NormSpec::Kind::kRms;
  float epsilon = 1e-5F;
  std::vector<float> gain;  ///< what the normalized value is multiplied with
  std::vector<float> bias;  ///< or empty

  std::size_t elements() const { return gain.size() + bias.size(); }

  /// Normalizes src [m][gain.size()] into dst, which may be src.
  void apply(const float* src, std::size_t m, float* dst) const;
};

struct MlpWeights {
  std::optional<Linear> gate;
  Linear up, down;
};

struct ExpertWeights {
  Linear router;
  std::vector<float> correction;  ///< [experts], or empty
  std::vector<MlpWeights> experts;
  std::optional<MlpWeights> shared;
};

/// What latent attention has in front of the projections into heads.
struct LatentWeights {
  std::optional<Linear> query_down;
  Norm query_down_norm;
  Linear key_value_down;
  Norm key_value_down_norm;
  Linear key_position;
};

struct BlockWeights {
  Norm attention_norm;
  std::optional<LatentWeights> latent;
  Linear query, key, value;
  Norm query_norm, key_norm;
  std::optional<Linear> output_gate;
  Linear attention_output;
  Norm mlp_norm;
  std::variant<MlpWeights, ExpertWeights> mlp;
};

/// Calls visit(linear, share) for every linear of a block; `share` of a token's forward passes use it.
template <typename Visit>
void for_each_linear(const BlockWeights& block, double expert_share, const Visit& visit) {
  const auto visit_mlp = [&](const MlpWeights& mlp, double share) {
    if (mlp.gate) visit(*mlp.gate, share);
    visit(mlp.up, share);
    visit(mlp.down, share);
  };
  if (block.latent) {
    if (block.latent->query_down) visit(*block.latent->query_down, 1.0);
    visit(block.latent->key_value_down, 1.0);
    visit(block.latent->key_position, 1.0);
  }
  for (const Linear* linear : {&block.query, &block.key, &block.value, &block.attention_output}) visit(*linear, 1.0);
  if (block.output_gate) visit(*block.output_gate, 1.0);
  if (const auto* plain = std::get_if<MlpWeights>(&block.mlp)) {
    visit_mlp(*plain, 1.0);
    return;
  }
  const auto& routed = std::get<ExpertWeights>(block.mlp);
  visit(routed.router, 1.0);
  if (routed.shared) visit_mlp(*routed.shared, 1.0);
  for (const MlpWeights& expert : routed.experts) visit_mlp(expert, expert_share);
}

}  // namespace ballast::model

#endif  // BALLAST_MODEL_WEIGHTS_H_
