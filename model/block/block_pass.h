// One block's pass over a batch: its inputs, the buffers that it writes, and functions that mixer and MLP share.
#ifndef BALLAST_MODEL_BLOCK_BLOCK_PASS_H_
#define BALLAST_MODEL_BLOCK_BLOCK_PASS_H_

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ballast/spec.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/key_bias.h"
#include "kernels/matrix/quantized_matrix.h"
#include "kernels/scratch.h"
#include "model/block/step_rows.h"
#include "model/block/weights.h"

namespace ballast::model {

class SequenceState;

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
  Buffer query_distances, key_distances, distance_scores;
  Buffer source_rows, source_keys_values;
  Buffer mlp_input, mlp_hidden, mlp_up;
  Buffer returned;  ///< the output of mixer or MLP, if it is not added directly
  Buffer token_stream, token_hidden;
  std::array<Buffer, 4> of_mixer;  ///< BlockPass::buffer
  Buffer router_logits, shared_logits, shared_output, experts_sum, expert_input, expert_hidden, expert_up,
      expert_output;
  std::vector<kernels::AttentionSequence> attention_sequences;
  std::vector<std::size_t> row_ends, wanted_ends;  ///< StepRows of the batch's tokens, and of the wanted ones
  std::vector<const AdapterPart*> adapters;        ///< of the batch's sequences, or empty
  LinearScratch linears;
  std::vector<kernels::QuantizedActivations> quantized_runs;  ///< of experts
};

/// cos and sin of the angles by which a batch's tokens are rotated, [tokens][rotary_size / 2] each.
struct AngleSet {
  std::vector<float> cos, sin;            ///< at the tokens' positions
  std::vector<float> slot_cos, slot_sin;  ///< at their slots in a rolling cache, for the scores of sinks; else empty
  const kernels::KeyRotation* rotation = nullptr;  ///< at any position
};

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

/// The linears that read one input, without allocation: at most six, which is the number of a gated delta net.
class LinearOutputs {
 public:
  void add(const LinearOutput& output) {
    assert(count_ < outputs_.size());
    outputs_[count_++] = output;
  }
  std::span<const LinearOutput> all() const { return std::span(outputs_).first(count_); }

 private:
  std::array<LinearOutput, 6> outputs_{};
  std::size_t count_ = 0;
};

/// The pass of one block over a batch.
struct BlockPass {
  const ModelSpec& spec;
  const BlockWeights& block;
  const LayerSpec& layer;
  const AngleSet& angles;
  std::span<const BatchSequence> batch;
  std::size_t state_layer;
  BlockActivations& activations;
  const ForwardOptions& options;
  StepRows rows;           ///< of hidden
  StepRows wanted_rows{};  ///< of the tokens that ForwardOptions::wanted_only keeps
  bool causal = true;      ///< tokens see only those before them
  std::size_t tokens = rows.count();

  /// Returns the rows of hidden that the mixer leaves for the rest of the block.
  const StepRows& rows_after_mixer() const { return options.wanted_only ? wanted_rows : rows; }

  /// Returns one of four buffers for mixers, of at least `size` values.
  float* buffer(std::size_t index, std::size_t size) const;

  /// Runs linears that read `input`, whose rows `step` describes, and records the input if the options say so: rows in
  /// memory must then stay until the next block, as those in the activations do.
  void apply_linears(std::span<const LinearOutput> outputs, const LinearRows& input, const StepRows& step) const;

  /// Writes the rows that linears read to memory, records them as the input of these linears, and returns them.
  LinearRows record_input(std::span<const LinearOutput> outputs, const LinearRows& input, const StepRows& step) const;

  /// Records rows as the input of linears.
  void record(std::span<const Linear* const> linears, const float* input, const StepRows& step) const;
};

/// Computes sum[i] += scale * values[i].
void add_values(const float* values, std::size_t count, float scale, float* sum);

/// Moves the rows of each sequence's wanted tokens to the front. Returns their number.
std::size_t keep_wanted_rows(std::span<const BatchSequence> batch, std::size_t row_size, float* rows);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_BLOCK_BLOCK_PASS_H_
