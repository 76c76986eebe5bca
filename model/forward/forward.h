// The forward pass of one block over a batch of sequences, which can record its activations for calibration.
#ifndef BALLAST_MODEL_FORWARD_FORWARD_H_
#define BALLAST_MODEL_FORWARD_FORWARD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ballast/spec.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/key_bias.h"
#include "kernels/matrix/quantized_matrix.h"
#include "kernels/scratch.h"
#include "model/forward/sequence_state.h"
#include "model/weights.h"

namespace ballast::model {

/// Consecutive tokens of one sequence, at positions state->position() ... The tokens of a batch are grouped by
/// sequence.
struct BatchSequence {
  std::size_t tokens = 0;
  SequenceState* state = nullptr;
  std::span<const std::uint8_t> fp16_tokens{};  ///< per token: not 0 keeps it in F16 in an INT8 cache; or empty
  std::size_t wanted = 0;                       ///< with ForwardOptions::wanted_only, the number of wanted last tokens
};

/// Rows that some linears of a block read together.
struct LinearInput {
  std::vector<Part> readers;  ///< the linears
  std::size_t cols = 0;
  const float* rows = nullptr;  ///< [count][cols], dense
  std::size_t count = 0;
  std::vector<std::size_t> tokens;         ///< the token of the batch for each row; empty: all tokens in order
  std::optional<std::size_t> expert = {};  ///< the expert whose last linear reads them
};

/// The decisions of a router for a batch.
struct RoutedTokens {
  const float* rows = nullptr;    ///< [tokens][hidden_size], which router and experts read
  const float* logits = nullptr;  ///< [tokens][experts]
  std::size_t tokens = 0;
  std::vector<std::vector<std::size_t>> of_expert;  ///< the tokens that each expert got, ascending
};

/// Rows of a block's keys or values.
struct StridedRows {
  const float* rows = nullptr;
  std::size_t stride = 0;
};

/// Buffers that a block writes, reused from block to block; rows are the batch's tokens.
struct BlockActivations {
  // Activations for calibration, valid until the next block.
  std::vector<LinearInput> inputs;        ///< in the order of the forward pass; only if requested
  RoutedTokens routing;                   ///< only if requested; no experts if the block has none
  StridedRows keys;                       ///< [tokens][kv_heads * key_size] of the layer's cache_shape, rotated
  StridedRows values;                     ///< [tokens][kv_heads * value_size] of the same shape
  std::vector<double> first_token_share;  ///< [sequences][heads]; only if requested

  // Internal buffers.
  using Buffer = kernels::AlignedArray<float>;
  Buffer attention_input, query_key_value, attention_output, output_gate;
  Buffer query_latent, key_value_latent, key_position, head_queries, head_values, sink_queries;
  Buffer mlp_input, mlp_hidden, mlp_up;
  Buffer returned;  ///< the output of mixer or MLP, if it is not added directly
  Buffer token_stream, token_hidden;
  std::array<Buffer, 4> of_mixer;  ///< BlockPass::buffer
  Buffer router_logits, shared_logits, shared_output, experts_sum, expert_input, expert_hidden, expert_up,
      expert_output;
  std::vector<kernels::AttentionSequence> attention_sequences;
  std::vector<std::size_t> row_ends, wanted_ends;  ///< StepRows of the batch's tokens, and of the wanted ones
  kernels::QuantizedActivations quantized;
};

/// cos and sin of the angles by which a batch's tokens are rotated, [tokens][rotary_size / 2] each.
struct AngleSet {
  std::vector<float> cos, sin;            ///< at the tokens' positions
  std::vector<float> slot_cos, slot_sin;  ///< at their slots in a rolling cache, for the scores of sinks; else empty
  const kernels::KeyRotation* rotation = nullptr;  ///< at any position
};

class RopeTable;

/// The angles of all layers: layers with the same rotation share a set.
class RopeAngles {
 public:
  /// Returns the angles of a layer; empty if the layer does not rotate.
  const AngleSet& of_layer(std::size_t layer) const;

 private:
  friend class RopeTable;
  const RopeTable* table_ = nullptr;
  std::vector<AngleSet> sets_;
};

/// The rotations of a model's layers.
class RopeTable {
 public:
  explicit RopeTable(const ModelSpec& spec);

  /// Computes the angles of a batch. They refer to this table, and their memory is reused from batch to batch.
  void look_up(std::span<const BatchSequence> batch, RopeAngles& angles) const;

 private:
  friend class RopeAngles;

  struct Rotation {
    RopeSpec spec;
    std::size_t offset = 0;  ///< of the rotated channels in a head
    std::vector<double> frequencies;
    kernels::KeyRotation keys;

    void fill(std::span<const BatchSequence> batch, bool in_slots, std::vector<float>& cos,
              std::vector<float>& sin) const;
  };

  std::vector<Rotation> rotations_;
  std::vector<std::optional<std::size_t>> of_layer_;  ///< index of the layer's rotation, if it has one
};

/// Returns whether a last block can skip work that only unwanted tokens need.
inline bool can_keep_wanted_only(const ModelSpec& spec) {
  return spec.layout == BlockLayout::kPreNorm || spec.layout == BlockLayout::kOutputNorm;
}

struct ForwardOptions {
  bool record_inputs = false;      ///< fill BlockActivations::inputs
  bool first_token_share = false;  ///< also sum up the attention that each head gives to the first token
  /// With record_inputs: of an MLP without experts, only the input of its first linears is recorded. The MLP is not
  /// run, and hidden is not the block's output.
  bool mlp_input_only = false;
  /// After this block only the BatchSequence::wanted tokens of each sequence are needed: they are moved to hidden's
  /// first rows, grouped by sequence. The others leave only their keys and values in the cache. Requires
  /// can_keep_wanted_only.
  bool wanted_only = false;
  StridedRows token_inputs{};  ///< [tokens][TokenInputSpec::size], where the spec has them
};

/// Runs a block on hidden [tokens][hidden_size], in place. Appends the batch's tokens to layer `state_layer` of each
/// sequence's state, without advancing it; if the layer reads another layer's keys and values (cache_layer), these must
/// have been appended. `layer` is the block's index in the model.
void forward_block(const ModelSpec& spec, const BlockWeights& block, std::size_t layer, const RopeAngles& angles,
                   std::span<const BatchSequence> batch, std::size_t state_layer, float* hidden,
                   BlockActivations& activations, const ForwardOptions& options = {});

/// Runs an expert on chosen tokens, independent of the router. Spec and block must outlive it.
class LoneExpert {
 public:
  LoneExpert(const ModelSpec& spec, const BlockWeights& block, std::size_t layer, std::size_t expert);

  /// Returns the input of its last linear for rows [count][hidden_size] of the router's input: [count][its columns],
  /// valid until the activations' next use.
  const float* down_rows(const float* rows, std::size_t count, BlockActivations& activations) const;

 private:
  /// Returns the input of the expert for these rows where its score multiplies it; else empty.
  std::vector<float> weighted_rows(const float* rows, std::size_t count, BlockActivations& activations) const;

  const ModelSpec& spec_;
  const BlockWeights& block_;
  std::size_t layer_;
  std::size_t expert_;
  std::shared_ptr<const MlpWeights> loaded_;  ///< null if it is one of the block's
  const MlpWeights* weights_;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_FORWARD_FORWARD_H_
