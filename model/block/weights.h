// Weights of a loaded model in the kernels' formats.
#ifndef BALLAST_MODEL_BLOCK_WEIGHTS_H_
#define BALLAST_MODEL_BLOCK_WEIGHTS_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ballast/activation.h"
#include "ballast/compute_options.h"
#include "ballast/spec.h"
#include "kernels/matrix/float_matrix.h"
#include "kernels/matrix/low_rank.h"
#include "kernels/matrix/quantized_matrix.h"
#include "model/block/expert_store.h"
#include "model/block/mixer.h"
#include "model/block/step_rows.h"
#include "model/roles/role_row.h"

namespace ballast::model {

/// A float matrix: a view of a mapped file, or its own memory. It owns decoded values if the file's type must be
/// decoded, a copy if the file should not be needed again, and panels if single tokens should be fast.
struct FloatMatrixHolder {
  kernels::FloatMatrix matrix;
  std::vector<float> owned;
  std::vector<std::byte> copied;  ///< from the file, in the matrix's type
  std::optional<kernels::FloatPanels> panels;
  ComputeOptions compute{};  ///< how it is multiplied
};

/// A linear, y = W x + b, with W in any format.
struct Linear {
  Part part;
  std::string name;  ///< "model.layers.0.self_attn.q_proj"
  std::variant<FloatMatrixHolder, kernels::QuantizedMatrix> weights;
  std::vector<float> bias;                                     ///< empty if there is none
  std::optional<kernels::ActivationQuantization> activations;  ///< how the input of a quantized matrix is quantized

  std::size_t rows() const;
  std::size_t cols() const;
  std::size_t bytes() const;  ///< read by one token's product
};

/// Returns whether a linear is read from a mapped file whenever it is used.
bool lies_in_file(const Linear& linear);

/// Returns the linear with a plain matrix copied to panels; a quantized one is not changed.
Linear in_panels(Linear linear);

/// Returns the linear with a plain matrix in a mapped file copied to memory, in its own type.
Linear in_own_memory(Linear linear);

/// The output of one linear of a group: rows `stride` floats apart.
struct LinearOutput {
  const Linear* linear = nullptr;
  float* dst = nullptr;
  std::size_t stride = 0;
  bool accumulate = false;       ///< adds to dst, which must not be a part of the input
  const Linear* gate = nullptr;  ///< dst = activation(gate(x)) * linear(x): where multiplied_by_gate
  Activation activation = Activation::kSilu;
};

/// Returns whether a linear and its gate are multiplied in one call: only where no adapter adds to the rows.
bool multiplied_by_gate(const Linear& linear, const Linear& gate, const StepRows& step);

/// Rows of `cols` values that linears read. They may be computed while they are read, so that their computation (a
/// norm, an activation) needs no separate pass. Computing them may overwrite its input, so rows are read once, by
/// source() or all().
class LinearRows {
 public:
  /// Dense rows in memory.
  LinearRows(const float* rows, std::size_t cols) : source_(rows, cols), cols_(cols) {}

  /// Refers to rows that `source` computes. For readers that need all of them in memory, they are written to `dense`
  /// [count][cols] first.
  LinearRows(const kernels::RowSource& source, std::size_t cols, float* dense)
      : source_(source), cols_(cols), dense_(dense) {}

  const kernels::RowSource& source() const { return source_; }
  const float* all(std::size_t count) const;

  /// Returns the same rows in memory.
  LinearRows in_memory(std::size_t count) const { return {all(count), cols_}; }

 private:
  kernels::RowSource source_;
  std::size_t cols_;
  float* dense_ = nullptr;
};

/// Memory of apply(), reused from call to call.
struct LinearScratch {
  kernels::QuantizedActivations activations;
  std::vector<std::size_t> adapted_rows;  ///< grouped by adapter
  std::vector<kernels::LowRankProduct> added;
  kernels::LowRankScratch low_rank;
};

/// Runs linears that read the same rows, which `step` describes, and quantizes the rows once for all linears with the
/// same quantization. Adds what the step's adapters add.
void apply(std::span<const LinearOutput> outputs, const LinearRows& rows, const StepRows& step, LinearScratch& scratch);

/// A linear that reads its own range of rows.
struct LinearOfRows {
  LinearOutput output;
  std::size_t first = 0;
  std::size_t count = 0;
};

/// Returns whether apply_ragged can run the linears for rows without adapters: all are quantized, and those of the same
/// rows in the same format.
bool can_apply_ragged(std::span<const LinearOfRows> linears);

/// Runs linears as one parallel call. Each reads the same rows as the one before it, or those that follow. The results
/// are the same bits as those of apply(). `scratch` is reused from call to call.
void apply_ragged(std::span<const LinearOfRows> linears, const LinearRows& rows,
                  std::vector<kernels::QuantizedActivations>& scratch);

/// Decodes row `row` of a matrix to F32, for embedding look-ups. dst is [cols].
void decode_row(const Linear& linear, std::size_t row, float* dst);

/// A norm with its parameters. Without a gain, the model has no such norm.
struct Norm {
  NormSpec::Kind kind = NormSpec::Kind::kRms;
  float epsilon = 1e-5F;
  std::vector<float> gain;  ///< multiplies the normalized value
  std::vector<float> bias;  ///< or empty

  /// Normalizes src [m][gain.size()] into dst, which may be src.
  void apply(const float* src, std::size_t m, float* dst) const;
};

struct MlpWeights {
  std::optional<Linear> gate;
  Linear up, down;
};

struct ExpertWeights {
  Linear router;
  std::vector<float> correction;             ///< [experts], or empty
  std::vector<MlpWeights> experts;           ///< empty if there is a store
  std::shared_ptr<const ExpertStore> store;  ///< null: all experts are in memory
  std::optional<MlpWeights> shared;
  std::optional<Linear> shared_router;
  Norm shared_post_norm;  ///< of the shared MLP's output
  Norm post_norm;         ///< of the experts' sum
};

/// A layer's weights of TokenInputSpec.
struct TokenInputWeights {
  Linear gate, output;
  Norm post_norm;
};

/// The weights of a block. Move-only.
struct BlockWeights {
  Norm attention_norm;  ///< of the mixer's input, or of the sum with its output; without a gain: no norm
  std::unique_ptr<const Mixer> mixer;
  Norm attention_post_norm;  ///< of the mixer's output
  Norm mlp_norm;
  std::variant<std::monostate, MlpWeights, ExpertWeights> mlp;  ///< monostate: the layer has no MLP
  Norm mlp_post_norm;
  Norm stream_norm;  ///< of the residual stream after the block
  std::optional<TokenInputWeights> token_inputs;
  float scale = 1.0F;  ///< factor on the residual stream after the block
};

/// Calls visit(linear, role) for every linear of an MLP.
template <typename Visit>
void for_each_linear(const MlpWeights& mlp, Role gate, Role up, Role down, const Visit& visit) {
  if (mlp.gate) visit(*mlp.gate, gate);
  visit(mlp.up, up);
  visit(mlp.down, down);
}

/// Calls visit(linear, role) for every linear of a block, without those of experts in a store.
template <typename Visit>
void for_each_linear(const BlockWeights& block, const Visit& visit) {
  block.mixer->for_each_linear(visit);
  if (block.token_inputs) {
    visit(block.token_inputs->gate, Role::kTokenInputGate);
    visit(block.token_inputs->output, Role::kTokenInputOutput);
  }
  if (const auto* plain = std::get_if<MlpWeights>(&block.mlp)) {
    return for_each_linear(*plain, Role::kGate, Role::kUp, Role::kDown, visit);
  }
  const auto* routed = std::get_if<ExpertWeights>(&block.mlp);
  if (routed == nullptr) return;
  visit(routed->router, Role::kRouter);
  if (routed->shared_router) visit(*routed->shared_router, Role::kSharedRouter);
  if (routed->shared) for_each_linear(*routed->shared, Role::kSharedGate, Role::kSharedUp, Role::kSharedDown, visit);
  for (const MlpWeights& expert : routed->experts) {
    for_each_linear(expert, Role::kExpertGate, Role::kExpertUp, Role::kExpertDown, visit);
  }
}

}  // namespace ballast::model

#endif  // BALLAST_MODEL_BLOCK_WEIGHTS_H_
